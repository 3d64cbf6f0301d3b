"""Export embeddings of a large corpus to a memory-mapped file."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch


class Downloader:
    """Hands out host arrays one batch behind the device."""

    def __init__(self, rows: int, dim: int, device: torch.device):
        self._device = device
        self._stream = torch.cuda.Stream(device=device)
        self._shape = (rows, dim)

    def drain(self, batches: Iterator[tuple[int, torch.Tensor]]) -> Iterator[tuple[int, np.ndarray]]:
        buffers = [torch.empty(self._shape, pin_memory=True) for _ in range(2)]
        previous: tuple[int, torch.Tensor, torch.cuda.Event] | None = None
        try:
            for number, (offset, values) in enumerate(batches):
                target = buffers[number % 2][: values.shape[0]]
                self._stream.wait_stream(torch.cuda.current_stream(self._device))
                values.record_stream(self._stream)
                with torch.cuda.stream(self._stream):
                    target.copy_(values, non_blocking=True)
                landed = self._stream.record_event()
                if previous is not None:
                    at, host, event = previous
                    event.synchronize()
                    yield at, host.numpy().copy()
                previous = (offset, target, landed)
            if previous is not None:
                at, host, event = previous
                previous = None
                event.synchronize()
                yield at, host.numpy().copy()
        finally:
            self._stream.synchronize()


class Encoder(torch.nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = torch.nn.EmbeddingBag(vocab, dim)
        self.body = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.Tanh(), torch.nn.Linear(dim, dim))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.body(self.embed(ids)), dim=1)


@torch.no_grad()
def encode(model: Encoder, ids: np.ndarray, rows: int, device: torch.device):
    for start in range(0, len(ids), rows):
        chunk = torch.from_numpy(ids[start : start + rows]).to(device)
        yield start, model(chunk)


def export(model: Encoder, ids: np.ndarray, path: Path, dim: int, device: torch.device, limit: int | None = None) -> int:
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(ids), dim))
    downloader = Downloader(4096, dim, device)
    written = 0
    for offset, block in downloader.drain(encode(model, ids, 4096, device)):
        out[offset : offset + len(block)] = block
        written += len(block)
        if limit is not None and written >= limit:
            break
    out.flush()
    return written


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = Encoder(5000, 128).to(device).eval()
    ids = np.random.default_rng(0).integers(0, 5000, size=(50_000, 8))
    print(export(model, ids, Path("/tmp/emb.npy"), 128, device))
    print(export(model, ids, Path("/tmp/emb_head.npy"), 128, device, limit=10_000))
    print(np.abs(np.load("/tmp/emb.npy", mmap_mode="r")[-1]).sum())


if __name__ == "__main__":
    main()
