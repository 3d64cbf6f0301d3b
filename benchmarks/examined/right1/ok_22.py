"""Checkpoints taken by snapshotting to pinned memory and writing from a worker thread."""
import io
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class SnapshotWriter:
    def __init__(self, modules):
        self.modules = modules
        self.stream = torch.cuda.Stream()
        self.host = {}
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.writing = None
        self.copied = None
        self.sizes = []

    def _host_like(self, key, t):
        if key not in self.host:
            self.host[key] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return self.host[key]

    def _entries(self):
        for prefix, module in self.modules.items():
            for name, t in module.state_dict().items():
                yield f"{prefix}.{name}", t

    @torch.no_grad()
    def snapshot(self, step):
        if self.writing is not None:
            self.sizes.append(self.writing.result())
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for key, t in self._entries():
                self._host_like(key, t).copy_(t, non_blocking=True)
            self.copied = torch.cuda.Event()
            self.copied.record()
        self.writing = self.pool.submit(self._write, step, self.copied)

    def _write(self, step, copied):
        copied.synchronize()
        sink = io.BytesIO()
        torch.save({"step": step, "state": self.host}, sink)
        return sink.tell()

    def before_update(self):
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)
            self.copied = None

    def close(self):
        if self.writing is not None:
            self.sizes.append(self.writing.result())
            self.writing = None
        self.pool.shutdown()
        return self.sizes


def main(steps=200):
    model = nn.Sequential(nn.Linear(1024, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    writer = SnapshotWriter({"model": model})
    for step in range(steps):
        writer.before_update()
        x = torch.randn(64, 1024, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            writer.snapshot(step)
    print(writer.close())


if __name__ == "__main__":
    main()
