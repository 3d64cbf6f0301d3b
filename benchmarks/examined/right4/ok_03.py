from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch


class SnapshotBuffers:
    def __init__(self, module):
        self.host = {
            k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
            for k, v in module.state_dict().items()
        }
        self.done = torch.cuda.Event()

    def write(self, path: Path):
        self.done.synchronize()
        torch.save(self.host, path)
        return path


class Snapshotter:
    def __init__(self, module, root):
        self.module = module
        self.root = Path(root)
        self.buffers = SnapshotBuffers(module)
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Future | None = None

    def take(self, step):
        if self.pending is not None:
            self.pending.result()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for key, value in self.module.state_dict().items():
                self.buffers.host[key].copy_(value, non_blocking=True)
            self.buffers.done.record(self.stream)
        self.pending = self.pool.submit(self.buffers.write, self.root / f"step{step}.pt")

    def fence(self):
        torch.cuda.current_stream().wait_event(self.buffers.done)

    def close(self):
        if self.pending is not None:
            self.pending.result()
        self.pool.shutdown()


class Trainer:
    def __init__(self, model, opt, root, every=100):
        self.model, self.opt, self.every = model, opt, every
        self.snap = Snapshotter(model, root)

    def step(self, i, x, y):
        self.snap.fence()
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if i % self.every == 0:
            self.snap.take(i)

    def fit(self, loader):
        try:
            for i, (x, y) in enumerate(loader):
                self.step(i, x.cuda(), y.cuda())
        finally:
            self.snap.close()


if __name__ == "__main__":
    net = torch.nn.Linear(1024, 1024).cuda()
    data = [(torch.randn(32, 1024), torch.randn(32, 1024)) for _ in range(10)]
    Trainer(net, torch.optim.AdamW(net.parameters()), "/tmp/ckpt", every=3).fit(data)
