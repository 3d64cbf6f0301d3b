"""Batch prefetch on a copy stream; batches are allocated there and consumed on the caller's stream."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)

    def _load(self, it):
        try:
            host = next(it)
        except StopIteration:
            return None
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            batch = [t.to(self.device, non_blocking=True) for t in host]
            batch[0] = batch[0].sub(0.5).mul_(4.0)
            ready = self.copy_stream.record_event()
        return batch, ready

    def __iter__(self):
        it = iter(self.loader)
        item = self._load(it)
        while item is not None:
            upcoming = self._load(it)
            batch, ready = item
            torch.cuda.current_stream(self.device).wait_event(ready)
            item = upcoming
            yield batch


class Trainer:
    def __init__(self, dim=784, device="cuda"):
        self.device = torch.device(device)
        self.net = nn.Sequential(nn.Linear(dim, 4096), nn.ReLU(), nn.Linear(4096, 10)).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def epoch(self, prefetcher):
        running = torch.zeros((), device=self.device)
        for batch in prefetcher:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            running += loss.detach()
        return running


def main():
    data = TensorDataset(torch.rand(20_000, 784), torch.randint(0, 10, (20_000,)))
    loader = DataLoader(data, batch_size=500, pin_memory=True, num_workers=2)
    trainer = Trainer()
    prefetcher = Prefetcher(loader, trainer.device)
    for _ in range(3):
        print(trainer.epoch(prefetcher).item())


if __name__ == "__main__":
    main()
