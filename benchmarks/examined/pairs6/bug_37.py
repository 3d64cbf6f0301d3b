"""Variable length batches are packed into CuPy pinned arrays before they are uploaded."""
import cupyx
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedCollator:
    """Packs documents into one row and uploads the row together with the cumulative lengths."""

    def __init__(self, device="cuda"):
        self.device = device

    def __call__(self, documents):
        total = sum(len(d) for d in documents)
        tokens = cupyx.empty_pinned((total,), dtype=np.int64)
        offsets = cupyx.empty_pinned((len(documents) + 1,), dtype=np.int64)
        offsets[0] = 0
        at = 0
        for i, doc in enumerate(documents):
            tokens[at:at + len(doc)] = doc
            at += len(doc)
            offsets[i + 1] = at
        return (torch.from_numpy(tokens).to(self.device, non_blocking=True),
                torch.from_numpy(offsets).to(self.device, non_blocking=True))


class BagModel(nn.Module):
    def __init__(self, vocab=100_000, dim=512, classes=50):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean", include_last_offset=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4096), nn.ReLU(), nn.Linear(4096, classes))

    def forward(self, tokens, offsets):
        return self.mlp(self.bag(tokens, offsets))


def documents(rng, count):
    return [rng.integers(0, 100_000, size=rng.integers(64, 2048)) for _ in range(count)]


def main(steps=5000):
    rng = np.random.default_rng(0)
    collate = PackedCollator()
    model = BagModel().cuda()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    labels = torch.randint(0, 50, (256,), device="cuda")
    for step in range(steps):
        tokens, offsets = collate(documents(rng, 256))
        loss = F.cross_entropy(model(tokens, offsets), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "bag.pt")


if __name__ == "__main__":
    main()
