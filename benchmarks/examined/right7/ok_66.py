"""Training pipeline with memcpy, preprocessing and compute streams."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class KeyedBatch:
    dense: torch.Tensor
    sparse: torch.Tensor
    label: torch.Tensor

    def to(self, device, non_blocking=False):
        return KeyedBatch(*(t.to(device, non_blocking=non_blocking) for t in self.fields()))

    def fields(self):
        return self.dense, self.sparse, self.label

    def record_stream(self, stream):
        for t in self.fields():
            t.record_stream(stream)


def wait_for_batch(batch: KeyedBatch, stream):
    current = torch.cuda.current_stream()
    current.wait_stream(stream)
    batch.record_stream(current)


class TrainPipeline:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.memcpy, self.prep = torch.cuda.Stream(), torch.cuda.Stream()
        self.batches = []

    def _copy(self, it):
        host = next(it, None)
        if host is None:
            return None
        with torch.cuda.stream(self.memcpy):
            return host.to("cuda", non_blocking=True)

    def _prepare(self, batch):
        if batch is None:
            return None
        with torch.cuda.stream(self.prep):
            wait_for_batch(batch, self.memcpy)
            return KeyedBatch(batch.dense.log1p(), batch.sparse % 1000, batch.label)

    def progress(self, it):
        if not self.batches:
            self.batches = [self._prepare(self._copy(it)), self._copy(it)]
        current, copied = self.batches
        if current is None:
            raise StopIteration
        wait_for_batch(current, self.prep)
        self.batches = [self._prepare(copied), self._copy(it)]
        loss = self.model(current)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        return loss.detach()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(1000, 16)
        self.mlp = nn.Linear(13 + 16, 1)

    def forward(self, b):
        z = torch.cat([b.dense, self.emb(b.sparse)], 1)
        return nn.functional.binary_cross_entropy_with_logits(self.mlp(z).squeeze(1), b.label)


def host_batches(n):
    for _ in range(n):
        yield KeyedBatch(
            torch.rand(64, 13).pin_memory(),
            torch.randint(10_000, (64, 5)).pin_memory(),
            torch.rand(64).round().pin_memory(),
        )


def main():
    model = Model().cuda()
    pipe = TrainPipeline(model, torch.optim.SGD(model.parameters(), lr=0.1))
    it, losses = host_batches(20), []
    while True:
        try:
            losses.append(pipe.progress(it))
        except StopIteration:
            break
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
