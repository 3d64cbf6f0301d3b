"""Mirror a device buffer onto a second GPU with peer copies."""
from __future__ import annotations

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def ok(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


class _Device:
    def __init__(self, ordinal: int, nbytes: int):
        self.ordinal = ordinal
        ok(rt.cudaSetDevice(ordinal))
        self.stream = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.buffer = int(ok(rt.cudaMalloc(nbytes)))
        self.event = ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        ok(rt.cudaMemsetAsync(self.buffer, 0, nbytes, self.stream))
        ok(rt.cudaStreamSynchronize(self.stream))

    def mark(self):
        ok(rt.cudaSetDevice(self.ordinal))
        ok(rt.cudaEventRecord(self.event, self.stream))
        return self.event

    def wait(self, event) -> None:
        ok(rt.cudaSetDevice(self.ordinal))
        ok(rt.cudaStreamWaitEvent(self.stream, event, 0))

    def close(self) -> None:
        ok(rt.cudaSetDevice(self.ordinal))
        ok(rt.cudaStreamSynchronize(self.stream))
        ok(rt.cudaStreamDestroy(self.stream))
        ok(rt.cudaEventDestroy(self.event))
        ok(rt.cudaFree(self.buffer))


class MirroredBuffer:
    """Writes go to the primary; reads come from the mirror."""

    def __init__(self, count: int, primary: int = 0, mirror: int = 1):
        self.count, self.nbytes = count, 4 * count
        self._primary = _Device(primary, self.nbytes)
        self._mirror = _Device(mirror, self.nbytes)
        self._dirty = False

    def write(self, offset: int, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values, dtype=np.float32)
        if offset < 0 or offset + values.size > self.count:
            raise ValueError("write is out of range")
        device = self._primary
        ok(rt.cudaSetDevice(device.ordinal))
        target = device.buffer + 4 * offset
        try:
            ok(rt.cudaMemcpyAsync(target, values.ctypes.data, values.nbytes, KIND.cudaMemcpyHostToDevice, device.stream))
        finally:
            ok(rt.cudaStreamSynchronize(device.stream))
        self._dirty = True

    def fill_bytes(self, value: int) -> None:
        device = self._primary
        ok(rt.cudaSetDevice(device.ordinal))
        ok(rt.cudaMemsetAsync(device.buffer, value, self.nbytes, device.stream))
        self._dirty = True

    def sync_mirror(self) -> None:
        if not self._dirty:
            return
        source, target = self._primary, self._mirror
        target.wait(source.mark())
        ok(
            rt.cudaMemcpyPeerAsync(
                target.buffer, target.ordinal, source.buffer, source.ordinal, self.nbytes, target.stream
            )
        )
        source.wait(target.mark())
        self._dirty = False

    def read(self) -> np.ndarray:
        self.sync_mirror()
        device = self._mirror
        out = np.empty(self.count, dtype=np.float32)
        ok(rt.cudaSetDevice(device.ordinal))
        try:
            ok(rt.cudaMemcpyAsync(out.ctypes.data, device.buffer, self.nbytes, KIND.cudaMemcpyDeviceToHost, device.stream))
        finally:
            ok(rt.cudaStreamSynchronize(device.stream))
        return out

    def close(self) -> None:
        self._mirror.close()
        self._primary.close()


def main() -> None:
    if ok(rt.cudaGetDeviceCount()) < 2:
        raise SystemExit("two GPUs are needed")
    buffer = MirroredBuffer(1 << 20)
    try:
        for step in range(1, 6):
            buffer.fill_bytes(0)
            buffer.write(step * 1000, np.full(500, step, dtype=np.float32))
            buffer.sync_mirror()
            buffer.write(0, np.full(10, 0.5))
            print(step, buffer.read().sum())
    finally:
        buffer.close()


if __name__ == "__main__":
    main()
