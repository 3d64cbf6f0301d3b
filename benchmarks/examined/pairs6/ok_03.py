"""Token batches from a memory mapped corpus, through a small ring of pinned buffers."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PinnedSlot:
    def __init__(self, batch, length):
        self.host = torch.empty(batch, length + 1, dtype=torch.int64, pin_memory=True)
        self.view = self.host.numpy()
        self.uploaded = torch.cuda.Event()


class TokenReader:
    def __init__(self, path, batch, length, slots=3, seed=0):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.batch, self.length = batch, length
        self.rng = np.random.default_rng(seed)
        self.slots = [PinnedSlot(batch, length) for _ in range(slots)]
        self.calls = 0

    def get(self):
        slot = self.slots[self.calls % len(self.slots)]
        self.calls += 1
        slot.uploaded.synchronize()
        starts = self.rng.integers(0, len(self.tokens) - self.length - 1, size=self.batch)
        for row, start in enumerate(starts):
            slot.view[row] = self.tokens[start:start + self.length + 1]
        block = slot.host.to("cuda", non_blocking=True)
        slot.uploaded.record()
        return block[:, :-1], block[:, 1:]


class Bigram(nn.Module):
    def __init__(self, vocab=50304, dim=768):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx, target):
        logits = self.head(self.emb(idx))
        return F.cross_entropy(logits.flatten(0, 1), target.reshape(-1))


def main():
    reader = TokenReader("data/openwebtext/train.bin", batch=8, length=1024)
    model = Bigram().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    for step in range(10_000):
        x, y = reader.get()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 200 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
