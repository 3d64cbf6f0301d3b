"""Ragged token batches: short-lived pinned staging and a shared upload stream."""
from typing import Dict, Iterator, List, Sequence

import torch
import torch.nn as nn


class RaggedUploader:
    """Builds padded batches in fresh pinned tensors that are dropped right away."""

    def __init__(self, pad: int = 0):
        self.pad = pad
        self.stream = torch.cuda.Stream()

    def __call__(self, sequences: Sequence[List[int]]) -> Dict[str, torch.Tensor]:
        longest = max(len(s) for s in sequences)
        ids = torch.full((len(sequences), longest), self.pad, dtype=torch.long, pin_memory=True)
        lengths = torch.tensor([len(s) for s in sequences]).pin_memory()
        for row, seq in enumerate(sequences):
            ids[row, : len(seq)] = torch.tensor(seq)
        consumer = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            batch = {
                "ids": ids.to("cuda", non_blocking=True),
                "lengths": lengths.to("cuda", non_blocking=True),
            }
            mask = torch.arange(longest, device="cuda")[None, :] < batch["lengths"][:, None]
            batch["mask"] = mask
        consumer.wait_stream(self.stream)
        for t in batch.values():
            t.record_stream(consumer)
        return batch


class Pooler(nn.Module):
    def __init__(self, vocab: int = 32000, width: int = 768):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.project = nn.Linear(width, 256)

    def forward(self, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        h = self.embed(batch["ids"]) * batch["mask"][..., None]
        pooled = h.sum(dim=1) / batch["lengths"][:, None]
        return nn.functional.normalize(self.project(pooled), dim=-1)


def sequences(count: int, batch: int) -> Iterator[List[List[int]]]:
    g = torch.Generator().manual_seed(1)
    for _ in range(count):
        lens = torch.randint(4, 512, (batch,), generator=g).tolist()
        yield [torch.randint(1, 32000, (n,), generator=g).tolist() for n in lens]


@torch.inference_mode()
def encode(model: Pooler, source: Iterator[List[List[int]]]) -> torch.Tensor:
    upload = RaggedUploader()
    parts = []
    for chunk in source:
        parts.append(model(upload(chunk)))
    return torch.cat(parts)


def main() -> None:
    model = Pooler().cuda().eval()
    vectors = encode(model, sequences(64, 128))
    print(vectors.shape, (vectors @ vectors[0]).topk(3).indices.tolist())


if __name__ == "__main__":
    main()
