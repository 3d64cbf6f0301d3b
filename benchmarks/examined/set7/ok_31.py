from typing import Iterator, List, Optional

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

_unpack = cp.RawKernel(
    r"""
extern "C" __global__
void unpack12(const unsigned char* raw, float* out, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const unsigned char* p = raw + (i / 2) * 3;
        int v = (i % 2 == 0) ? p[0] | ((p[1] & 0x0f) << 8) : (p[1] >> 4) | (p[2] << 4);
        out[i] = (float)v;
    }
}
""",
    "unpack12",
)


class FrameBuffer:
    """Device memory that is allocated, used and freed in the order of one stream."""

    def __init__(self, nbytes: int, stream: cp.cuda.Stream):
        self.stream = stream
        self.buffer = rmm.DeviceBuffer(size=nbytes, stream=Stream(stream))

    def as_array(self, dtype, shape) -> cp.ndarray:
        mem = cp.cuda.UnownedMemory(self.buffer.ptr, self.buffer.size, owner=self.buffer)
        return cp.ndarray(shape, dtype=dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class Pipeline:
    def __init__(self, frame_shape, pool_bytes: int = 1 << 30):
        rmm.mr.set_current_device_resource(
            rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=pool_bytes)
        )
        self.shape = frame_shape
        self.decode_stream = cp.cuda.Stream(non_blocking=True)
        self.filter_stream = cp.cuda.Stream(non_blocking=True)

    def _decode(self, raw: np.ndarray) -> FrameBuffer:
        n = int(np.prod(self.shape))
        packed = FrameBuffer(raw.nbytes, self.decode_stream)
        frame = FrameBuffer(4 * n, self.decode_stream)
        with self.decode_stream:
            packed.as_array(np.uint8, (raw.nbytes,)).set(raw, stream=self.decode_stream)
            _unpack(((n + 255) // 256,), (256,),
                    (packed.as_array(np.uint8, (raw.nbytes,)), frame.as_array(np.float32, (n,)), cp.int32(n)))
        return frame

    def _background(self, frame: cp.ndarray, mean: Optional[cp.ndarray]) -> cp.ndarray:
        return frame.copy() if mean is None else mean * 0.95 + frame * 0.05

    def run(self, frames: Iterator[np.ndarray]) -> List[float]:
        mean: Optional[cp.ndarray] = None
        levels = []
        for raw in frames:
            buf = self._decode(raw)
            self.filter_stream.wait_event(self.decode_stream.record())
            with self.filter_stream:
                frame = buf.as_array(np.float32, self.shape)
                mean = self._background(frame, mean)
                levels.append(cp.abs(frame - mean).mean())
            self.decode_stream.wait_event(self.filter_stream.record())
            del frame, buf
        with self.filter_stream:
            return [float(v) for v in levels]
