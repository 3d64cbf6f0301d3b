import weakref

import numpy as np
import torch


def _release(pointer, stream):
    stream.synchronize()
    torch.cuda.cudart().cudaHostUnregister(pointer)


class RegisteredArray:
    """Page-locks an existing numpy array for the lifetime of this object."""

    def __init__(self, array, stream):
        self.array = np.ascontiguousarray(array)
        self.stream = stream
        pointer = self.array.ctypes.data
        rc = torch.cuda.cudart().cudaHostRegister(pointer, self.array.nbytes, 0)
        if int(rc) != 0:
            raise RuntimeError(f"cudaHostRegister failed: {rc}")
        self._finalizer = weakref.finalize(self, _release, pointer, stream)

    def upload(self, out):
        with torch.cuda.stream(self.stream):
            out.copy_(torch.from_numpy(self.array), non_blocking=True)

    def close(self):
        self._finalizer()


class Volume:
    def __init__(self, slabs, device):
        self.stream = torch.cuda.Stream(device)
        self.data = torch.zeros((len(slabs), *slabs[0].shape), device=device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        for i, slab in enumerate(slabs):
            source = RegisteredArray(slab, self.stream)
            source.upload(self.data[i])
            source.close()

    def replace(self, index, slab):
        self.stream.wait_stream(torch.cuda.current_stream())
        source = RegisteredArray(slab, self.stream)
        try:
            source.upload(self.data[index])
        finally:
            source.close()

    def mip(self):
        return self.data.amax(0)


def main():
    rng = np.random.default_rng(0)
    slabs = [rng.random((256, 256), dtype=np.float32) for _ in range(32)]
    vol = Volume(slabs, torch.device("cuda"))
    for i in range(32):
        best = vol.mip()
        vol.replace(i, rng.random((256, 256), dtype=np.float32) * best.mean().item())
    print(vol.mip().mean().item())


if __name__ == "__main__":
    main()
