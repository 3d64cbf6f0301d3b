"""Host staging arena: one page locked tensor, cut into chunks, used for all uploads of a server."""
import threading
from contextlib import contextmanager

import numpy as np
import torch


class PinnedArena:
    """Fixed size chunks of one page locked buffer, handed out to one user at a time."""

    def __init__(self, chunk_bytes, n_chunks):
        self.buffer = torch.empty(chunk_bytes * n_chunks, dtype=torch.uint8, pin_memory=True)
        self.chunk_bytes = chunk_bytes
        self._free = list(range(n_chunks))
        self._cond = threading.Condition()

    def acquire(self):
        with self._cond:
            while not self._free:
                self._cond.wait()
            return self._free.pop()

    def release(self, chunk):
        with self._cond:
            self._free.append(chunk)
            self._cond.notify()

    def view(self, chunk, nbytes):
        start = chunk * self.chunk_bytes
        return self.buffer[start : start + nbytes]

    @contextmanager
    def chunk(self, nbytes):
        if nbytes > self.chunk_bytes:
            raise ValueError("request exceeds the chunk size")
        index = self.acquire()
        try:
            yield self.view(index, nbytes)
        finally:
            self.release(index)


_TORCH_DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.int32): torch.int32}


class Uploader:
    def __init__(self, device="cuda:0", chunk_bytes=4 << 20, n_chunks=4):
        self.device = torch.device(device)
        self.arena = PinnedArena(chunk_bytes, n_chunks)

    def upload(self, array):
        array = np.ascontiguousarray(array)
        dtype = _TORCH_DTYPES[array.dtype]
        with self.arena.chunk(array.nbytes) as staging:
            staging.numpy()[:] = array.reshape(-1).view(np.uint8)
            typed = staging.view(dtype).view(array.shape)
            return typed.to(self.device, non_blocking=True)

    def upload_many(self, arrays):
        return [self.upload(a) for a in arrays]


class FeatureServer:
    def __init__(self, weights, device="cuda:0"):
        self.uploader = Uploader(device)
        self.weights = torch.as_tensor(weights, dtype=torch.float32).to(device)

    def score(self, batch_of_arrays):
        features = self.uploader.upload_many(batch_of_arrays)
        scores = [torch.relu(f @ self.weights).mean(0) for f in features]
        return torch.stack(scores).cpu().numpy()


def main(rows=512, dim=1024, batches=16):
    rng = np.random.default_rng(1)
    server = FeatureServer(rng.standard_normal((dim, 64), dtype=np.float32))
    arrays = [rng.standard_normal((rows, dim), dtype=np.float32) for _ in range(batches)]
    return server.score(arrays)


if __name__ == "__main__":
    print(main().shape)
