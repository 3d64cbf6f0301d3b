"""A prefetch loader for nested batches."""
from typing import Any, Iterable, Iterator

import torch
from torch import nn


def move_to_cuda(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.cuda(non_blocking=True)
    if isinstance(batch, dict):
        return {k: move_to_cuda(v) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(move_to_cuda(v) for v in batch)
    return batch


def record_cuda_stream(batch: Any) -> None:
    if isinstance(batch, torch.Tensor):
        batch.record_stream(torch.cuda.current_stream())
    elif isinstance(batch, dict):
        for v in batch.values():
            record_cuda_stream(v)
    elif isinstance(batch, (list, tuple)):
        for v in batch:
            record_cuda_stream(v)


class PrefetchLoader:
    def __init__(self, loader: Iterable):
        self.loader = loader
        self.stream = torch.cuda.Stream()

    def __iter__(self) -> Iterator:
        it = iter(self.loader)
        self._preload(it)
        batch = self._next(it)
        while batch is not None:
            yield batch
            batch = self._next(it)

    def _preload(self, it: Iterator) -> None:
        try:
            host = next(it)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            self.batch = move_to_cuda(host)

    def _next(self, it: Iterator):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.batch
        if batch is not None:
            record_cuda_stream(batch)
            self._preload(it)
        return batch


class VQADataset(torch.utils.data.Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "image": torch.rand(36, 512, generator=g),
            "question": (torch.randint(0, 1000, (16,), generator=g), torch.ones(16)),
            "answer": torch.rand(32, generator=g),
        }


class VQAModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1000, 256)
        self.img = nn.Linear(512, 256)
        self.out = nn.Linear(256, 32)

    def forward(self, batch):
        tokens, mask = batch["question"]
        text = (self.word(tokens) * mask.unsqueeze(-1)).sum(1)
        return self.out(text * self.img(batch["image"]).mean(1))


def main():
    loader = torch.utils.data.DataLoader(VQADataset(), batch_size=64, pin_memory=True)
    model = VQAModel().cuda()
    opt = torch.optim.Adam(model.parameters())
    for _ in range(2):
        for batch in PrefetchLoader(loader):
            loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch["answer"])
            opt.zero_grad()
            loss.backward()
            opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
