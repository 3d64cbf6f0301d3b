from __future__ import annotations

import mmap
import os
import tempfile
import weakref

import numpy as np
import torch

cudart = torch.cuda.cudart()


def _unregister(stream: torch.cuda.Stream, address: int, fd: int, path: str) -> None:
    stream.synchronize()
    cudart.cudaHostUnregister(address)
    os.close(fd)
    os.unlink(path)


class PinnedFile:
    """A memory-mapped file registered with the driver for asynchronous copies."""

    def __init__(self, path: str, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        fd = os.open(path, os.O_RDWR)
        self._map = mmap.mmap(fd, 0)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)
        address = self._bytes.ctypes.data
        err = cudart.cudaHostRegister(address, self._bytes.nbytes, 0)
        if int(err) != 0:
            raise RuntimeError(f"cudaHostRegister failed: {err}")
        self.tensor = torch.from_numpy(self._bytes)
        self._finalizer = weakref.finalize(self, _unregister, stream, address, fd, path)

    def load(self, offset: int, out: torch.Tensor) -> torch.cuda.Event:
        flat = out.view(-1).view(torch.uint8)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            flat.copy_(self.tensor[offset : offset + flat.numel()], non_blocking=True)
            flat.record_stream(self.stream)
            return self.stream.record_event()

    def close(self) -> None:
        self._finalizer()


def load_weights(path: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    file = PinnedFile(path, torch.cuda.Stream())
    weights: dict[str, torch.Tensor] = {}
    events: list[torch.cuda.Event] = []
    offset = 0
    try:
        for name, shape in shapes.items():
            weights[name] = torch.empty(shape, device="cuda")
            events.append(file.load(offset, weights[name]))
            offset += weights[name].numel() * 4
        for event in events:
            event.wait()
    finally:
        file.close()
    return weights


def main() -> None:
    shapes = {"up": (1024, 256), "down": (256, 1024), "bias": (1024,)}
    total = sum(int(np.prod(s)) for s in shapes.values())
    with tempfile.NamedTemporaryFile(delete=False) as f:
        np.random.default_rng(0).standard_normal(total).astype(np.float32).tofile(f)
    w = load_weights(f.name, shapes)
    h = torch.randn(8, 256, device="cuda") @ w["up"].t() + w["bias"]
    print((h @ w["down"].t()).std().item())


if __name__ == "__main__":
    main()
