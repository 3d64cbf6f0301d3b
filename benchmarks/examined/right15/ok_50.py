"""Streams a file through the device in blocks with nothing but libcudart and ctypes."""
import ctypes
import ctypes.util
import os
import zlib

_rt = ctypes.CDLL(ctypes.util.find_library("cudart") or "libcudart.so")
_H2D, _D2H, _D2D = 1, 2, 3
_P = ctypes.c_void_p
_rt.cudaMalloc.argtypes = [ctypes.POINTER(_P), ctypes.c_size_t]
_rt.cudaHostAlloc.argtypes = [ctypes.POINTER(_P), ctypes.c_size_t, ctypes.c_uint]
_rt.cudaMemcpyAsync.argtypes = [_P, _P, ctypes.c_size_t, ctypes.c_int, _P]
_rt.cudaStreamCreateWithFlags.argtypes = [ctypes.POINTER(_P), ctypes.c_uint]
_rt.cudaEventCreateWithFlags.argtypes = [ctypes.POINTER(_P), ctypes.c_uint]
_rt.cudaEventRecord.argtypes = [_P, _P]
_rt.cudaStreamWaitEvent.argtypes = [_P, _P, ctypes.c_uint]
for _name in ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaFree",
              "cudaFreeHost", "cudaStreamDestroy", "cudaEventDestroy"):
    getattr(_rt, _name).argtypes = [_P]


def call(name, *args):
    code = getattr(_rt, name)(*args)
    if code:
        raise OSError(f"{name} failed with {code}")


def make(name, *args):
    out = _P()
    call(name, ctypes.byref(out), *args)
    return out


class Mirror:
    """Copies a file's blocks up, duplicates them on the device and reads them back."""

    def __init__(self, block=1 << 20):
        self.block = block
        self.up = make("cudaStreamCreateWithFlags", 1)
        self.down = make("cudaStreamCreateWithFlags", 1)
        self.host = [make("cudaHostAlloc", block, 0) for _ in range(2)]
        self.landing = make("cudaHostAlloc", block, 0)
        self.device = [make("cudaMalloc", block) for _ in range(2)]
        self.copy = make("cudaMalloc", block)
        self.arrived = [make("cudaEventCreateWithFlags", 2) for _ in range(2)]

    def _fill(self, handle, k):
        data = handle.read(self.block)
        if data:
            ctypes.memmove(self.host[k], data, len(data))
            call("cudaMemcpyAsync", self.device[k], self.host[k], len(data), _H2D, self.up)
            call("cudaEventRecord", self.arrived[k], self.up)
        return len(data)

    def checksum(self, path):
        crc = 0
        try:
            with open(path, "rb") as handle:
                k = 0
                size = self._fill(handle, k)
                while size:
                    following = self._fill(handle, 1 - k)
                    call("cudaStreamWaitEvent", self.down, self.arrived[k], 0)
                    call("cudaMemcpyAsync", self.copy, self.device[k], size, _D2D, self.down)
                    call("cudaMemcpyAsync", self.landing, self.copy, size, _D2H, self.down)
                    call("cudaStreamSynchronize", self.down)
                    crc = zlib.crc32(ctypes.string_at(self.landing, size), crc)
                    k, size = 1 - k, following
        finally:
            call("cudaStreamSynchronize", self.up)
            call("cudaStreamSynchronize", self.down)
        return crc

    def close(self):
        for pointer in (*self.host, self.landing):
            call("cudaFreeHost", pointer)
        for pointer in (*self.device, self.copy):
            call("cudaFree", pointer)
        for event in self.arrived:
            call("cudaEventDestroy", event)
        call("cudaStreamDestroy", self.up)
        call("cudaStreamDestroy", self.down)


def main():
    data = os.urandom((5 << 20) + 12345)
    with open("/tmp/mirror.bin", "wb") as handle:
        handle.write(data)
    mirror = Mirror()
    try:
        for _ in range(2):
            assert mirror.checksum("/tmp/mirror.bin") == zlib.crc32(data)
    finally:
        mirror.close()


if __name__ == "__main__":
    main()
