"""Ragged text batches: short-lived page-locked tensors feed the device."""
import numpy as np
import torch
import torch.nn as nn


def push(array, device):
    staged = torch.from_numpy(array).pin_memory()
    return staged.to(device, non_blocking=True)


class RaggedBatch:
    def __init__(self, ids, offsets):
        self.ids = ids
        self.offsets = offsets


class Collator:
    """Concatenates documents and builds the offsets."""

    def __init__(self, vocab, batch, seed=0):
        self.vocab = vocab
        self.batch = batch
        self.rng = np.random.default_rng(seed)

    def documents(self):
        lengths = self.rng.integers(16, 512, self.batch)
        return [self.rng.integers(1, self.vocab, n, dtype=np.int64) for n in lengths]

    def __call__(self, device):
        docs = self.documents()
        offsets = np.zeros(len(docs) + 1, dtype=np.int64)
        np.cumsum([len(d) for d in docs], out=offsets[1:])
        return RaggedBatch(push(np.concatenate(docs), device), push(offsets, device))


class BagEncoder(nn.Module):
    def __init__(self, vocab, dim, classes):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean", include_last_offset=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, batch):
        return self.mlp(self.bag(batch.ids, batch.offsets))


class Loop:
    def __init__(self, vocab=100_000, dim=512, classes=32, batch=2048):
        self.device = torch.device("cuda", 0)
        self.model = BagEncoder(vocab, dim, classes).to(self.device)
        self.collate = Collator(vocab, batch)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.classes = classes
        self.batch = batch

    def _labels(self):
        raw = self.collate.rng.integers(0, self.classes, self.batch, dtype=np.int64)
        return push(raw, self.device)

    def step(self):
        batch = self.collate(self.device)
        loss = nn.functional.cross_entropy(self.model(batch), self._labels())
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    loop = Loop()
    losses = [loop.step() for _ in range(60)]
    print(torch.stack(losses).view(6, 10).mean(dim=1).cpu())


if __name__ == "__main__":
    main()
