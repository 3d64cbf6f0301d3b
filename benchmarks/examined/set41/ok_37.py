"""TensorRT through a CUDA graph, with double-buffered host input outside the graph."""
import argparse
import ctypes
from typing import Iterator, List, Optional, Tuple

import numpy as np
import tensorrt as trt
from cuda import cudart


def ok(ret):
    if ret[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(ret[0]))
    return ret[1] if len(ret) == 2 else ret[1:]


H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class HostBlock:
    def __init__(self, shape: Tuple[int, ...], dtype):
        dt = np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * dt.itemsize
        self.ptr = ok(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self.arr = np.frombuffer(raw, dtype=dt).reshape(shape)
        self.event = ok(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def mark(self, stream) -> None:
        ok(cudart.cudaEventRecord(self.event, stream))

    def wait(self) -> None:
        ok(cudart.cudaEventSynchronize(self.event))


class GraphRunner:
    def __init__(self, plan: str):
        with open(plan, "rb") as f:
            self.engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(f.read())
        self.ctx = self.engine.create_execution_context()
        self.stream = ok(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]
        is_in = lambda n: self.engine.get_tensor_mode(n) == trt.TensorIOMode.INPUT
        self.n_in = next(n for n in names if is_in(n))
        self.n_out = next(n for n in names if not is_in(n))
        self.host_in = [self._host(self.n_in) for _ in range(2)]
        self.host_out = [self._host(self.n_out) for _ in range(2)]
        self.d_in = ok(cudart.cudaMalloc(self.host_in[0].nbytes))
        self.d_out = ok(cudart.cudaMalloc(self.host_out[0].nbytes))
        self.ctx.set_tensor_address(self.n_in, int(self.d_in))
        self.ctx.set_tensor_address(self.n_out, int(self.d_out))
        self.ctx.execute_async_v3(self.stream)
        ok(cudart.cudaStreamSynchronize(self.stream))
        self.exec = self._capture()
        self.turn = 0

    def _host(self, name: str) -> HostBlock:
        return HostBlock(tuple(self.engine.get_tensor_shape(name)), trt.nptype(self.engine.get_tensor_dtype(name)))

    def _capture(self):
        ok(cudart.cudaStreamBeginCapture(
            self.stream, cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal))
        self.ctx.execute_async_v3(self.stream)
        g = ok(cudart.cudaStreamEndCapture(self.stream))
        return ok(cudart.cudaGraphInstantiate(g, 0))

    def submit(self, frame: np.ndarray) -> int:
        k = self.turn
        self.turn ^= 1
        src, dst = self.host_in[k], self.host_out[k]
        src.wait()
        np.copyto(src.arr, frame)
        ok(cudart.cudaMemcpyAsync(self.d_in, src.ptr, src.nbytes, H2D, self.stream))
        src.mark(self.stream)
        ok(cudart.cudaGraphLaunch(self.exec, self.stream))
        ok(cudart.cudaMemcpyAsync(dst.ptr, self.d_out, dst.nbytes, D2H, self.stream))
        dst.mark(self.stream)
        return k

    def fetch(self, k: int) -> np.ndarray:
        self.host_out[k].wait()
        return self.host_out[k].arr.copy()


class Classifier:
    def __init__(self, runner: GraphRunner):
        self.runner = runner

    def labels(self, frames: Iterator[np.ndarray]) -> List[int]:
        out: List[int] = []
        prev: Optional[int] = None
        for f in frames:
            cur = self.runner.submit(f)
            if prev is not None:
                out.append(int(self.runner.fetch(prev).argmax()))
            prev = cur
        if prev is not None:
            out.append(int(self.runner.fetch(prev).argmax()))
        return out


def noise(n: int, shape) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for _ in range(n):
        yield rng.standard_normal(shape, dtype=np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("plan")
    ap.add_argument("--frames", type=int, default=200)
    args = ap.parse_args()
    r = GraphRunner(args.plan)
    print(Classifier(r).labels(noise(args.frames, r.host_in[0].arr.shape))[:20])
    ok(cudart.cudaStreamSynchronize(r.stream))


if __name__ == "__main__":
    main()
