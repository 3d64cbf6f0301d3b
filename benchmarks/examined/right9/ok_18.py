import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class SnapshotWriter:
    """Copies parameters to pinned buffers and saves them from a worker."""

    def __init__(self, model, optimizer, folder):
        self.named = dict(model.named_parameters())
        self.host = {k: torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for k, p in self.named.items()}
        self.stream = torch.cuda.Stream()
        self.copied = None
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.future = None
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer, args, kwargs):
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)
            self.copied = None

    def snapshot(self, step):
        self.drain()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for k, p in self.named.items():
                self.host[k].copy_(p.detach(), non_blocking=True)
        self.copied = self.stream.record_event()
        self.future = self.pool.submit(self._write, step, self.copied)

    def _write(self, step, event):
        event.synchronize()
        path = os.path.join(self.folder, f"step{step:06d}.pt")
        torch.save({"step": step, "model": self.host}, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def drain(self):
        if self.future is not None:
            print("saved", self.future.result())
            self.future = None

    def close(self):
        self.drain()
        self.pool.shutdown()


def main():
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    writer = SnapshotWriter(model, optimizer, "/tmp/ckpt")
    try:
        for step in range(500):
            x = torch.randn(256, 512, device="cuda")
            loss = (model(x) - x.roll(1, -1)).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                writer.snapshot(step)
    finally:
        writer.close()


if __name__ == "__main__":
    main()
