"""Tabular training with preallocated device batches and an upload stream."""
import dataclasses
import itertools

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class DeviceBatch:
    features: torch.Tensor
    label: torch.Tensor
    filled: torch.cuda.Event = dataclasses.field(default_factory=torch.cuda.Event)
    consumed: torch.cuda.Event = dataclasses.field(default_factory=torch.cuda.Event)

    @classmethod
    def empty(cls, rows, cols):
        return cls(torch.zeros(rows, cols, device="cuda"), torch.zeros(rows, device="cuda"))


class StagedLoader:
    def __init__(self, loader, rows, cols, n_buffers=2):
        self.loader = loader
        self.buffers = [DeviceBatch.empty(rows, cols) for _ in range(n_buffers)]
        self.uploader = torch.cuda.Stream()
        self.uploader.wait_stream(torch.cuda.current_stream())

    def upload(self, buf, host):
        with torch.cuda.stream(self.uploader):
            self.uploader.wait_event(buf.consumed)
            buf.features.copy_(host[0], non_blocking=True)
            buf.label.copy_(host[1], non_blocking=True)
            buf.filled.record(self.uploader)
        return buf

    def __iter__(self):
        ring = itertools.cycle(self.buffers)
        hosts = iter(self.loader)
        ahead = self.upload(next(ring), next(hosts))
        while ahead is not None:
            buf = ahead
            host = next(hosts, None)
            ahead = self.upload(next(ring), host) if host is not None else None
            main = torch.cuda.current_stream()
            main.wait_event(buf.filled)
            buf.consumed.record(main)
            yield buf.features, buf.label


def main():
    table = TensorDataset(torch.randn(100_000, 512), torch.rand(100_000))
    loader = DataLoader(table, batch_size=1000, shuffle=True, pin_memory=True)
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 1)).cuda()
    opt = torch.optim.Adam(net.parameters())
    staged = StagedLoader(loader, 1000, 512)
    for epoch in range(10):
        for features, label in staged:
            loss = (net(features).squeeze(1) - label).square().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    main()
