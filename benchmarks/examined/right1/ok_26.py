"""Host-registered numpy arrays whose registration is withdrawn by a finalizer."""
import weakref

import numpy as np
import torch


def _unregister(pointer, stream):
    stream.synchronize()
    code = int(torch.cuda.cudart().cudaHostUnregister(pointer))
    if code != 0:
        raise RuntimeError(f"cudaHostUnregister failed with {code}")


class RegisteredArray:
    """Pins an existing array for uploads on one stream."""

    def __init__(self, array, stream):
        self.array = np.ascontiguousarray(array)
        self.stream = stream
        pointer = self.array.ctypes.data
        code = int(torch.cuda.cudart().cudaHostRegister(pointer, self.array.nbytes, 0))
        if code != 0:
            raise RuntimeError(f"cudaHostRegister failed with {code}")
        self.tensor = torch.from_numpy(self.array)
        self.close = weakref.finalize(self, self._release, pointer, stream, self.array)

    @staticmethod
    def _release(pointer, stream, keepalive):
        _unregister(pointer, stream)

    def upload(self, rows):
        with torch.cuda.stream(self.stream):
            dev = torch.empty((rows.stop - rows.start, self.array.shape[1]), device="cuda")
            dev.copy_(self.tensor[rows], non_blocking=True)
        return dev


class ShardReader:
    def __init__(self, shards):
        self.shards = shards
        self.stream = torch.cuda.Stream()

    def __iter__(self):
        for array in self.shards:
            registered = RegisteredArray(array, self.stream)
            for start in range(0, len(array), 1024):
                piece = registered.upload(slice(start, min(start + 1024, len(array))))
                consumer = torch.cuda.current_stream()
                consumer.wait_stream(self.stream)
                piece.record_stream(consumer)
                yield piece
            del registered


def main():
    rng = np.random.default_rng(1)
    shards = (rng.standard_normal((4096, 256), dtype=np.float32) for _ in range(8))
    covariance = torch.zeros(256, 256, device="cuda")
    rows = 0
    for piece in ShardReader(shards):
        covariance.addmm_(piece.T, piece)
        rows += piece.shape[0]
    print((covariance / rows).diagonal().mean().item())


if __name__ == "__main__":
    main()
