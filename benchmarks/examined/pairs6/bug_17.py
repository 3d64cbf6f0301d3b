"""Background transfer of contrastive pairs."""
import threading
from queue import Queue

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class TransferThread:
    def __init__(self, loader, depth=3):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.out = Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._loop, daemon=True)

    def _loop(self):
        for anchor, positive in self.loader:
            done = torch.cuda.Event()
            with torch.cuda.stream(self.stream):
                anchor = anchor.cuda(non_blocking=True)
                positive = positive.cuda(non_blocking=True)
            done.record()
            self.out.put((anchor, positive, done))
        self.out.put(None)

    def __iter__(self):
        self.thread.start()
        for anchor, positive, done in iter(self.out.get, None):
            main = torch.cuda.current_stream()
            done.wait(main)
            anchor.record_stream(main)
            positive.record_stream(main)
            yield anchor, positive


def info_nce(a, b, temperature=0.07):
    logits = F.normalize(a, dim=1) @ F.normalize(b, dim=1).t() / temperature
    return F.cross_entropy(logits, torch.arange(len(a), device=a.device))


def main():
    base = torch.randn(50_000, 1024)
    pairs = TensorDataset(base, base + 0.05 * torch.randn_like(base))
    loader = DataLoader(pairs, batch_size=2048, shuffle=True, pin_memory=True, drop_last=True)
    encoder = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 256)).cuda()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    for epoch in range(20):
        for anchor, positive in TransferThread(loader):
            loss = info_nce(encoder(anchor), encoder(positive))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
