import gc

import torch
import torch.nn as nn


class Backoff:
    """Splits a batch further after each out-of-memory error."""

    def __init__(self, max_chunks: int = 64):
        self.max_chunks = max_chunks
        self.chunks = 1

    def grow(self) -> bool:
        self.chunks *= 2
        gc.collect()
        torch.cuda.empty_cache()
        return self.chunks <= self.max_chunks


class BackgroundEncoder:
    """Encodes reference images on a low-priority stream."""

    def __init__(self, encoder: nn.Module):
        self.encoder = encoder
        self.stream = torch.cuda.Stream(priority=0)
        self.backoff = Backoff()

    def _attempt(self, images: torch.Tensor) -> torch.Tensor:
        parts = [self.encoder(part) for part in images.chunk(self.backoff.chunks)]
        return torch.cat(parts)

    @torch.no_grad()
    def encode(self, images: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        while True:
            self.stream.wait_stream(main)
            try:
                with torch.cuda.stream(self.stream):
                    features = self._attempt(images)
            except torch.cuda.OutOfMemoryError:
                failed = True
            else:
                failed = False
            finally:
                main.wait_stream(self.stream)
            if not failed:
                features.record_stream(main)
                return features
            if not self.backoff.grow():
                raise RuntimeError("reference batch does not fit")


def match(encoder: nn.Module, queries, references, top: int = 5):
    """Yield the closest references for each query batch."""
    background = BackgroundEncoder(encoder.cuda().eval())
    for query, reference in zip(queries, references):
        reference = reference.cuda()
        bank = background.encode(reference)
        with torch.no_grad():
            probe = nn.functional.normalize(encoder(query.cuda()), dim=-1)
            bank = nn.functional.normalize(bank, dim=-1)
            best = (probe @ bank.T).topk(top, dim=-1)
        if best.values.max().item() < 0.1:
            continue
        yield best.indices.tolist(), best.values.tolist()
