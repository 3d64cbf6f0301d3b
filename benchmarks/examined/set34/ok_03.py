"""Metric readback for a training loop; the page-locked record is rewritten once per logging interval."""
import torch
from torch import nn


class StepLog:
    """Collects scalars on the device and copies them through one page-locked record."""

    def __init__(self, names, device="cuda"):
        self.names = list(names)
        self.device_record = torch.zeros(len(self.names), device=device)
        self.host_record = torch.zeros(len(self.names), pin_memory=True)
        self.scale = torch.ones(len(self.names), pin_memory=True)
        self.device_scale = torch.ones(len(self.names), device=device)
        self.stream = torch.cuda.Stream()
        self.scaled = torch.cuda.Event()
        torch.cuda.synchronize()

    def set_scale(self, values):
        self.scaled.synchronize()
        for i, v in enumerate(values):
            self.scale[i] = v
        compute = torch.cuda.current_stream()
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            self.device_scale.copy_(self.scale, non_blocking=True)
            self.scaled.record(self.stream)
        compute.wait_stream(self.stream)

    def add(self, values):
        self.device_record += torch.stack([v.float() for v in values]) * self.device_scale

    def flush(self):
        compute = torch.cuda.current_stream()
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            self.host_record.copy_(self.device_record, non_blocking=True)
            self.device_record.zero_()
        compute.wait_stream(self.stream)
        total = self.device_scale.sum().item()
        row = dict(zip(self.names, self.host_record.tolist()))
        row["weight"] = total
        return row


class Trainer:
    def __init__(self, dim=1024):
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim)).cuda()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.log = StepLog(["loss", "grad_norm"])

    def step(self, x):
        loss = (self.net(x) - x).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        self.log.add([loss.detach(), norm])

    def fit(self, steps, interval=25):
        rows = []
        self.log.set_scale([1.0 / interval] * 2)
        for n in range(1, steps + 1):
            self.step(torch.randn(256, 1024, device="cuda"))
            if n % interval == 0:
                rows.append(self.log.flush())
                self.log.set_scale([1.0 / interval, 1.0 / (interval + n)])
        return rows


if __name__ == "__main__":
    for row in Trainer().fit(200):
        print(row)
