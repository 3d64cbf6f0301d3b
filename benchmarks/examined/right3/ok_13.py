"""Background checkpoints of a running training job."""
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Optional

import torch
from torch import nn


class BackgroundCheckpointer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, directory: str):
        self.model = model
        self.directory = directory
        self.stream = torch.cuda.Stream()
        self.host = {
            name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for name, p in model.state_dict().items()
        }
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._write_job: Optional[Future] = None
        self._copied: Optional[torch.cuda.Event] = None
        optimizer.register_step_pre_hook(self._guard_step)

    def _guard_step(self, optimizer, args, kwargs):
        if self._copied is not None:
            torch.cuda.current_stream().wait_event(self._copied)
            self._copied = None

    def save(self, step: int) -> None:
        if self._write_job is not None:
            self._write_job.result()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, value in self.model.state_dict().items():
                self.host[name].copy_(value, non_blocking=True)
        copied = self.stream.record_event()
        self._copied = copied
        path = os.path.join(self.directory, f"step{step}.pt")
        self._write_job = self._pool.submit(self._write, copied, path)

    def _write(self, copied: torch.cuda.Event, path: str) -> str:
        copied.synchronize()
        tmp = path + ".tmp"
        torch.save(self.host, tmp)
        os.replace(tmp, path)
        return path

    def close(self) -> None:
        if self._write_job is not None:
            self._write_job.result()
        self._pool.shutdown()


def main(directory: str = "/tmp/ckpt"):
    os.makedirs(directory, exist_ok=True)
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    ckpt = BackgroundCheckpointer(model, opt, directory)
    try:
        for step in range(200):
            x = torch.randn(64, 1024, device="cuda")
            loss = (model(x) - x).square().mean()
            opt.zero_grad()
            loss.backward()
            if step % 20 == 0:
                ckpt.save(step)
            opt.step()
    finally:
        ckpt.close()


if __name__ == "__main__":
    main()
