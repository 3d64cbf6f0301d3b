import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset


class Packed(IterableDataset):
    """Yields nested micro batches of packed sequences."""

    def __init__(self, steps, micro, tokens, vocab):
        self.steps = steps
        self.micro = micro
        self.tokens = tokens
        self.vocab = vocab

    def __iter__(self):
        for _ in range(self.steps):
            batch = []
            for _ in range(self.micro):
                ids = torch.randint(0, self.vocab, (self.tokens,))
                batch.append({"input_ids": ids, "labels": ids.roll(-1), "meta": {"weight": torch.rand(self.tokens)}})
            yield batch


def _map(obj, fn):
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: _map(v, fn) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return [_map(v, fn) for v in obj]
    return obj


class DeviceBatchPrefetcher:
    def __init__(self, iterator, device):
        self.iterator = iterator
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.next_batch = None
        self.current_state = 0
        self.next_state = 0
        self._preload()

    def _preload(self):
        batch = next(self.iterator, None)
        if batch is None:
            self.next_batch = None
            return
        self.next_state += 1
        with torch.cuda.stream(self.stream):
            self.next_batch = _map(batch, lambda t: t.to(self.device, non_blocking=True))

    def __iter__(self):
        return self

    def __next__(self):
        if self.next_batch is None:
            raise StopIteration
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        batch = self.next_batch
        _map(batch, lambda t: t.record_stream(current))
        self.current_state = self.next_state
        self._preload()
        return batch


class LM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, mb):
        h, _ = self.mix(self.embed(mb["input_ids"])[None])
        loss = nn.functional.cross_entropy(self.head(h[0]), mb["labels"], reduction="none")
        return (loss * mb["meta"]["weight"]).mean()


def train():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    vocab = 4096
    loader = DataLoader(Packed(40, 2, 512, vocab), batch_size=None, pin_memory=True)
    model = LM(vocab, 256).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    prefetcher = DeviceBatchPrefetcher(iter(loader), device)
    for batch in prefetcher:
        total = torch.zeros((), device=device)
        for mb in batch:
            loss = model(mb) / len(batch)
            loss.backward()
            total += loss.detach()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if prefetcher.current_state % 10 == 0:
            print(prefetcher.current_state, total.item())


if __name__ == "__main__":
    train()
