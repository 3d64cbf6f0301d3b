from __future__ import annotations

from typing import Callable, Optional

import torch


class AdaptiveBatcher:
    """Encodes a host-side corpus, halving the batch whenever memory runs out."""

    def __init__(self, encode: Callable[[torch.Tensor], torch.Tensor], batch: int, width: int) -> None:
        self.encode = encode
        self.batch = batch
        self.copy_stream = torch.cuda.Stream()
        self.bounce = torch.empty(batch, width, pin_memory=True)
        self.last_copy: Optional[torch.cuda.Event] = None
        self._rows: Optional[slice] = None

    def _store(self, out: torch.Tensor) -> None:
        if self.last_copy is None:
            return
        self.last_copy.synchronize()
        self.last_copy = None
        out[self._rows] = self.bounce[: self._rows.stop - self._rows.start]

    def _run(self, rows: slice, corpus: torch.Tensor, out: torch.Tensor) -> None:
        features = self.encode(corpus[rows].cuda())
        self._store(out)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.bounce[: features.size(0)].copy_(features, non_blocking=True)
            features.record_stream(self.copy_stream)
            self.last_copy = self.copy_stream.record_event()
        self._rows = rows

    def __call__(self, corpus: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        start = 0
        try:
            while start < corpus.size(0):
                rows = slice(start, min(start + self.batch, corpus.size(0)))
                try:
                    self._run(rows, corpus, out)
                except torch.cuda.OutOfMemoryError:
                    if self.batch == 1:
                        raise
                    self.batch //= 2
                    torch.cuda.synchronize()
                    torch.cuda.empty_cache()
                    continue
                start = rows.stop
            return out
        finally:
            self._store(out)


@torch.inference_mode()
def main() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 128)).cuda()
    corpus = torch.randn(50_000, 512)
    out = torch.empty(corpus.size(0), 128)
    batcher = AdaptiveBatcher(net, batch=8192, width=128)
    batcher(corpus, out)
    print(out.norm(dim=1).mean().item(), batcher.batch)


if __name__ == "__main__":
    main()
