"""Sparse parameter offload for a click model: rows live on the host."""
import queue
import threading

import torch
from torch import nn


class Offloader:
    """Device rows go to the host on a lane; a thread merges them into the table."""

    def __init__(self, table):
        self.table = table
        self.lane = torch.cuda.Stream()
        self.jobs = queue.Queue()
        self.thread = threading.Thread(target=self._merge, daemon=True)
        self.thread.start()

    def store(self, ids, rows):
        computed = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(computed)
            host = rows.to("cpu", non_blocking=True)
            rows.record_stream(self.lane)
        self.jobs.put((ids, host, computed))

    def _merge(self):
        while (job := self.jobs.get()) is not None:
            ids, host, computed = job
            computed.synchronize()
            self.table.index_copy_(0, ids, host)
            self.jobs.task_done()

    def drain(self):
        self.jobs.join()


class ClickModel(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 256), nn.SiLU(), nn.Linear(256, 1))

    def forward(self, e):
        return self.net(e).squeeze(1)


def train(steps=200, rows=500_000, dim=128):
    table = torch.randn(rows, dim) * 0.02
    off = Offloader(table)
    model = ClickModel(dim).cuda()
    opt = torch.optim.SGD(model.parameters(), 0.02)
    for step in range(steps):
        ids = torch.randperm(rows)[:16384]
        off.drain()
        e = table[ids].pin_memory().cuda(non_blocking=True).requires_grad_()
        y = torch.rand(16384, device="cuda").round()
        loss = nn.functional.binary_cross_entropy_with_logits(model(e), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        off.store(ids, e.detach() - 0.1 * e.grad)
    off.drain()
    torch.save(table, "table.pt")


if __name__ == "__main__":
    train()
