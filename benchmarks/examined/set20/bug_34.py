"""Thunk sequence executor with compute-on-stream regions and FFI custom calls."""
from dataclasses import dataclass, field

import cupy as cp
import numpy as np

FFI_REGISTRY = {}


def register_ffi_target(name):
    def wrap(fn):
        FFI_REGISTRY[name] = fn
        return fn
    return wrap


@register_ffi_target("rms_norm")
def rms_norm(stream, eps, x, y):
    with stream:
        scale = cp.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
        cp.divide(x, scale, out=y)


@dataclass
class ExecuteParams:
    stream: cp.cuda.Stream
    additional_compute_streams: dict = field(default_factory=dict)
    buffers: dict = field(default_factory=dict)


class Thunk:
    def __init__(self, execution_stream_id=0):
        self.execution_stream_id = execution_stream_id

    @staticmethod
    def get_stream_for_execution(stream_id, params):
        if stream_id == 0:
            return params.stream
        return params.additional_compute_streams[stream_id]


class GemmThunk(Thunk):
    def __init__(self, lhs, rhs, out, execution_stream_id=0):
        super().__init__(execution_stream_id)
        self.lhs, self.rhs, self.out = lhs, rhs, out

    def execute_on_stream(self, params):
        stream = self.get_stream_for_execution(self.execution_stream_id, params)
        b = params.buffers
        with stream:
            cp.matmul(b[self.lhs], b[self.rhs], out=b[self.out])


class CustomCallThunk(Thunk):
    def __init__(self, target, operands, results, execution_stream_id=0, **attributes):
        super().__init__(execution_stream_id)
        self.handler = FFI_REGISTRY[target]
        self.operands, self.results = operands, results
        self.attributes = attributes

    def execute_on_stream(self, params):
        args = [params.buffers[n] for n in self.operands + self.results]
        self.handler(params.stream, *self.attributes.values(), *args)


class WaitForStreamsThunk(Thunk):
    def __init__(self, stream_id, wait_for_stream_id):
        super().__init__(stream_id)
        self.wait_for = wait_for_stream_id
        self.event = cp.cuda.Event(disable_timing=True)

    def execute_on_stream(self, params):
        waiter = self.get_stream_for_execution(self.execution_stream_id, params)
        self.event.record(self.get_stream_for_execution(self.wait_for, params))
        waiter.wait_event(self.event)


class GpuExecutable:
    def __init__(self, thunks, num_additional_streams):
        self.thunks = thunks
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.additional = {k + 1: cp.cuda.Stream(non_blocking=True)
                           for k in range(num_additional_streams)}

    def execute(self, buffers):
        params = ExecuteParams(self.stream, self.additional, buffers)
        for thunk in self.thunks:
            thunk.execute_on_stream(params)
        self.stream.synchronize()
        return buffers["y"]


def build_module():
    """y = w2 @ rms_norm(w1 @ x) inside compute_on('gpu_stream:1')."""
    return [
        WaitForStreamsThunk(stream_id=1, wait_for_stream_id=0),
        GemmThunk("w1", "x", "h", execution_stream_id=1),
        CustomCallThunk("rms_norm", ["h"], ["n"], execution_stream_id=1, eps=np.float32(1e-5)),
        GemmThunk("w2", "n", "z", execution_stream_id=1),
        WaitForStreamsThunk(stream_id=0, wait_for_stream_id=1),
        GemmThunk("w1", "z", "y"),
    ]


def main(n=1536):
    rng = cp.random.RandomState(0)
    buffers = {name: rng.standard_normal((n, n), dtype=cp.float32) for name in ("w1", "w2", "x")}
    for name in ("h", "n", "z", "y"):
        buffers[name] = cp.zeros((n, n), dtype=cp.float32)
    cp.cuda.Device().synchronize()
    executable = GpuExecutable(build_module(), num_additional_streams=1)
    return float(cp.abs(executable.execute(buffers)).mean())


if __name__ == "__main__":
    print(main())
