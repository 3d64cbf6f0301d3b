import threading

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self, n, dim):
        self.x = torch.randn(n, dim)
        self.y = self.x.sum(-1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


class CUDAPrefetcher:
    """Loads and uploads one batch ahead in a background thread."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._iter = None
        self._thread = None
        self._gpu_batch = None
        self._error = None

    def __iter__(self):
        if self._thread is not None:
            self._thread.join()
        self._iter = iter(self.loader)
        self._gpu_batch = None
        self._error = None
        self._start()
        return self

    def _start(self):
        self._thread = threading.Thread(target=self._load, daemon=True)
        self._thread.start()

    def _load(self):
        try:
            torch.cuda.set_device(self.device)
            batch = next(self._iter, None)
            if batch is None:
                self._gpu_batch = None
                return
            with torch.cuda.stream(self.stream):
                self._gpu_batch = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
        except BaseException as exc:
            self._gpu_batch = None
            self._error = exc

    def __next__(self):
        self._thread.join()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        batch = self._gpu_batch
        if batch is None:
            raise StopIteration
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        for value in batch.values():
            value.record_stream(current)
        self._start()
        return batch


def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    loader = DataLoader(Pairs(8192, 1024), batch_size=256, shuffle=True, pin_memory=True, num_workers=2)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)).to(device)
    opt = torch.optim.AdamW(model.parameters())
    prefetcher = CUDAPrefetcher(loader, device)
    for epoch in range(3):
        total = torch.zeros((), device=device)
        for batch in prefetcher:
            loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
            loss.backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
            total += loss.detach()
        print(epoch, total.item())


if __name__ == "__main__":
    main()
