"""Detector and classifier engines chained through PyCUDA events on two streams."""
import argparse
from dataclasses import dataclass
from typing import Dict, List, Optional

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


@dataclass
class Buf:
    name: str
    shape: tuple
    dtype: np.dtype
    ptr: int
    mem: Optional[cuda.DeviceAllocation]


class Engine:
    def __init__(self, plan: str, stream: cuda.Stream, borrowed: Optional[Dict[str, Buf]] = None):
        logger = trt.Logger(trt.Logger.ERROR)
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.ctx = self.engine.create_execution_context()
        self.stream = stream
        self.inputs: List[Buf] = []
        self.outputs: List[Buf] = []
        borrowed = borrowed or {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            buf = borrowed.get(name) or self._alloc(name)
            self.ctx.set_tensor_address(name, buf.ptr)
            mode = self.engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs).append(buf)

    def _alloc(self, name: str) -> Buf:
        shape = tuple(self.engine.get_tensor_shape(name))
        dt = np.dtype(trt.nptype(self.engine.get_tensor_dtype(name)))
        mem = cuda.mem_alloc(int(np.prod(shape)) * dt.itemsize)
        return Buf(name, shape, dt, int(mem), mem)

    def enqueue(self) -> None:
        if not self.ctx.execute_async_v3(self.stream.handle):
            raise RuntimeError("execution failed")


class Handoff:
    """Orders one engine behind another without blocking the host."""

    def __init__(self):
        self.forward = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.backward = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.used = False

    def before_produce(self, producer: cuda.Stream) -> None:
        if self.used:
            producer.wait_for_event(self.backward)

    def after_produce(self, producer: cuda.Stream, consumer: cuda.Stream) -> None:
        self.forward.record(producer)
        consumer.wait_for_event(self.forward)

    def after_consume(self, consumer: cuda.Stream) -> None:
        self.backward.record(consumer)
        self.used = True


class Pipeline:
    def __init__(self, det: str, cls: str, link: str):
        self.s_det, self.s_cls = cuda.Stream(), cuda.Stream()
        self.det = Engine(det, self.s_det)
        shared = {link: next(o for o in self.det.outputs if o.name == link)}
        self.cls = Engine(cls, self.s_cls, borrowed=shared)
        self.link = Handoff()
        src = self.det.inputs[0]
        self.h_in = cuda.pagelocked_empty(src.shape, src.dtype)
        out = self.cls.outputs[0]
        self.h_out = cuda.pagelocked_empty(out.shape, out.dtype)

    def __call__(self, image: np.ndarray) -> np.ndarray:
        self.s_det.synchronize()
        np.copyto(self.h_in, image)
        cuda.memcpy_htod_async(self.det.inputs[0].ptr, self.h_in, self.s_det)
        self.link.before_produce(self.s_det)
        self.det.enqueue()
        self.link.after_produce(self.s_det, self.s_cls)
        self.cls.enqueue()
        self.link.after_consume(self.s_cls)
        cuda.memcpy_dtoh_async(self.h_out, self.cls.outputs[0].ptr, self.s_cls)
        self.s_cls.synchronize()
        return self.h_out.copy()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("detector")
    ap.add_argument("classifier")
    ap.add_argument("--link", default="features")
    ap.add_argument("--frames", type=int, default=100)
    args = ap.parse_args()
    cuda.init()
    ctx = cuda.Device(0).make_context()
    try:
        pipe = Pipeline(args.detector, args.classifier, args.link)
        rng = np.random.default_rng(0)
        for i in range(args.frames):
            y = pipe(rng.random(pipe.h_in.shape).astype(pipe.h_in.dtype))
            if i % 25 == 0:
                print(i, y.ravel()[:4])
    finally:
        ctx.pop()


if __name__ == "__main__":
    main()
