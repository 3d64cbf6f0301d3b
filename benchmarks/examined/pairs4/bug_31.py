"""Frame history on the CUDA runtime: ring on the device, previews on the host."""
import ctypes
from dataclasses import dataclass

import numpy as np
from cuda.bindings import runtime as rt


def ok(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


@dataclass
class Preview:
    array: np.ndarray
    done: object


class FrameHistory:
    """Stores full frames on the device and hands out subsampled rows."""

    def __init__(self, h, w, frames):
        self.h, self.w, self.n = h, w, frames
        self.stream = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.ring = int(ok(rt.cudaMalloc(h * w * frames)))
        self.stage = [self._host(h * w) for _ in range(2)]
        self.moved = [ok(rt.cudaEventCreate()) for _ in range(2)]
        self.count = 0

    @staticmethod
    def _host(nbytes):
        ptr = int(ok(rt.cudaMallocHost(nbytes)))
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(ptr), np.uint8)

    def push(self, frame):
        k = self.count % 2
        ok(rt.cudaEventSynchronize(self.moved[k]))
        self.stage[k][:] = frame.reshape(-1)
        dst = self.ring + (self.count % self.n) * self.h * self.w
        ok(rt.cudaMemcpyAsync(dst, self.stage[k].ctypes.data, self.h * self.w,
                              rt.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
        ok(rt.cudaEventRecord(self.moved[k], self.stream))
        self.count += 1

    def preview(self, step=8):
        rows = self.h // step
        out = self._host(rows * self.w)
        src = self.ring + ((self.count - 1) % self.n) * self.h * self.w
        ok(rt.cudaMemcpy2DAsync(out.ctypes.data, self.w, src, self.w * step, self.w, rows,
                                rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
        done = ok(rt.cudaEventCreate())
        ok(rt.cudaEventRecord(done, self.stream))
        return Preview(out.reshape(rows, self.w), done)

    def wait(self):
        ok(rt.cudaStreamSynchronize(self.stream))


def main():
    rng = np.random.default_rng(1)
    history = FrameHistory(1080, 1920, 16)
    brightness = []
    for _ in range(200):
        history.push(rng.integers(0, 255, (1080, 1920), dtype=np.uint8))
        preview = history.preview()
        brightness.append(preview.array.mean())
        ok(rt.cudaEventSynchronize(preview.done))
        ok(rt.cudaFreeHost(preview.array.ctypes.data))
    history.wait()
    print(np.mean(brightness))


if __name__ == "__main__":
    main()
