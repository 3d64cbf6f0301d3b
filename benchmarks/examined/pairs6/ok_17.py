"""Uploader thread feeding the training loop through a bounded queue."""
import queue
import threading

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Uploader(threading.Thread):
    END = object()

    def __init__(self, loader, device, depth=2):
        super().__init__(daemon=True)
        self.loader, self.device = loader, device
        self.stream = torch.cuda.Stream(device)
        self.batches = queue.Queue(depth)

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            for batch in self.loader:
                moved = [t.to(self.device, non_blocking=True) for t in batch]
                event = torch.cuda.Event()
                event.record()
                self.batches.put((moved, event))
        self.batches.put((self.END, None))

    def __iter__(self):
        self.start()
        while True:
            moved, event = self.batches.get()
            if moved is self.END:
                return
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            for t in moved:
                t.record_stream(current)
            yield moved


def main():
    device = torch.device("cuda:0")
    data = TensorDataset(torch.randn(20_000, 3, 32, 32), torch.randint(0, 10, (20_000,)))
    loader = DataLoader(data, batch_size=256, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                          nn.Linear(1024, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        for images, labels in Uploader(loader, device):
            loss = criterion(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
