"""Batches are copied one ahead on a transfer stream; the training stream is fixed at construction."""
import torch
from torch.utils.data import DataLoader, Dataset


class DevicePrefetcher:
    """Iterates over `loader`; batches are for use on `consumer` (the current stream by default)."""

    def __init__(self, loader, device, consumer=None):
        self.loader = loader
        self.device = torch.device(device)
        self.consumer = consumer or torch.cuda.current_stream(self.device)
        self.transfer = torch.cuda.Stream(self.device)
        self._it = None
        self._next = None

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        self._it = iter(self.loader)
        self._preload()
        return self

    def _preload(self):
        self._next = None
        batch = next(self._it, None)
        if batch is None:
            return
        self.transfer.wait_stream(self.consumer)
        with torch.cuda.stream(self.transfer):
            self._next = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}

    def __next__(self):
        if self._next is None:
            raise StopIteration
        self.consumer.wait_stream(self.transfer)
        batch = self._next
        self._preload()
        return batch


class Patches(Dataset):
    def __init__(self, n=4096):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "image": torch.randn(3, 128, 128, generator=g),
            "target": torch.tensor(i % 10),
        }


class Trainer:
    def __init__(self, model, device="cuda:0", lr=0.05):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)
        self.loss_fn = torch.nn.CrossEntropyLoss()
        self.running = torch.zeros((), device=self.device)

    def fit(self, dataset, epochs=2):
        loader = DataLoader(
            dataset, batch_size=64, num_workers=4, pin_memory=True, drop_last=True
        )
        batches = DevicePrefetcher(loader, self.device)
        for _ in range(epochs):
            for batch in batches:
                loss = self.loss_fn(self.model(batch["image"]), batch["target"])
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                self.opt.step()
                self.running.mul_(0.99).add_(loss.detach(), alpha=0.01)
        return self.running.item()


def main():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 5, 2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 5, 2),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )
    print(Trainer(model).fit(Patches()))


if __name__ == "__main__":
    main()
