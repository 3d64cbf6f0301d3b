"""Segmentation service with separate upload, inference and download lanes."""
import ctypes
from typing import List, Optional

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

NONBLOCK = cudart.cudaStreamNonBlocking
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def cu(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else None


def pinned(nbytes: int, dtype=np.float32):
    ptr = cu(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_byte * nbytes).from_address(int(ptr))
    return ptr, np.frombuffer(raw, dtype=dtype)


class BufferSet:
    def __init__(self, engine, names, in_bytes: int, out_bytes: int):
        self.in_bytes, self.out_bytes = in_bytes, out_bytes
        self.h_in, self.in_view = pinned(in_bytes)
        self.h_out, self.out_view = pinned(out_bytes)
        self.d_in = cu(cudart.cudaMalloc(in_bytes))
        self.d_out = cu(cudart.cudaMalloc(out_bytes))
        self.uploaded = cu(cudart.cudaEventCreate())
        self.inferred = cu(cudart.cudaEventCreate())
        self.downloaded = cu(cudart.cudaEventCreate())
        self.busy = False
        self.context = engine.create_execution_context()
        self.context.set_tensor_address(names[0], int(self.d_in))
        self.context.set_tensor_address(names[1], int(self.d_out))


class Lanes:
    def __init__(self):
        self.up = cu(cudart.cudaStreamCreateWithFlags(NONBLOCK))
        self.run = cu(cudart.cudaStreamCreateWithFlags(NONBLOCK))
        self.down = cu(cudart.cudaStreamCreateWithFlags(NONBLOCK))


class Segmenter:
    def __init__(self, path: str, in_name: str = "image", out_name: str = "mask"):
        runtime = trt.Runtime(trt.Logger())
        with open(path, "rb") as f:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.names = (in_name, out_name)
        sizes = [int(np.prod(tuple(self.engine.get_tensor_shape(n)))) * 4 for n in self.names]
        self.sets: List[BufferSet] = [
            BufferSet(self.engine, self.names, *sizes) for _ in range(2)
        ]
        self.lanes = Lanes()
        self.turn = 0

    def _finish(self, s: BufferSet) -> Optional[np.ndarray]:
        if not s.busy:
            return None
        cu(cudart.cudaEventSynchronize(s.downloaded))
        s.busy = False
        return s.out_view.copy()

    def push(self, image: np.ndarray) -> Optional[np.ndarray]:
        s = self.sets[self.turn]
        self.turn ^= 1
        previous = self._finish(s)
        s.in_view[:] = image.reshape(-1)
        lanes = self.lanes
        cu(cudart.cudaMemcpyAsync(s.d_in, s.h_in, s.in_bytes, H2D, lanes.up))
        cu(cudart.cudaEventRecord(s.uploaded, lanes.up))
        cu(cudart.cudaStreamWaitEvent(lanes.run, s.uploaded, 0))
        s.context.execute_async_v3(int(lanes.run))
        cu(cudart.cudaEventRecord(s.inferred, lanes.run))
        cu(cudart.cudaStreamWaitEvent(lanes.down, s.inferred, 0))
        cu(cudart.cudaMemcpyAsync(s.h_out, s.d_out, s.out_bytes, D2H, lanes.down))
        cu(cudart.cudaEventRecord(s.downloaded, lanes.down))
        s.busy = True
        return previous

    def drain(self):
        results = [self._finish(self.sets[self.turn]), self._finish(self.sets[self.turn ^ 1])]
        return [r for r in results if r is not None]


def main(path: str = "segment.engine", frames: int = 120):
    seg = Segmenter(path)
    shape = tuple(seg.engine.get_tensor_shape("image"))
    rng = np.random.default_rng(2)
    masks = []
    for _ in range(frames):
        mask = seg.push(rng.random(shape, dtype=np.float32))
        if mask is not None:
            masks.append(mask.mean())
    masks.extend(m.mean() for m in seg.drain())
    assert len(masks) == frames


if __name__ == "__main__":
    main()
