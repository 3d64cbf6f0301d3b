"""Checkpointing that overlaps the snapshot with the next forward."""
import threading

import torch
from torch import nn


class AsyncCheckpointer:
    def __init__(self, model: nn.Module):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.staging = {
            k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
            for k, v in model.state_dict().items()
        }
        self._done = None
        self._writer = None

    def save(self, path: str):
        self.wait_written()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for k, v in self.model.state_dict().items():
                self.staging[k].copy_(v, non_blocking=True)
            self._done = self.stream.record_event()
        self._writer = threading.Thread(target=self._write, args=(path, self._done))
        self._writer.start()

    def _write(self, path, done):
        done.synchronize()
        torch.save(self.staging, path)

    def guard_step(self, optimizer, args, kwargs):
        if self._done is not None:
            torch.cuda.current_stream().wait_event(self._done)

    def wait_written(self):
        if self._writer is not None:
            self._writer.join()
            self._writer = None


def train(path: str, steps: int = 20):
    model = nn.Linear(2048, 2048).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    ckpt = AsyncCheckpointer(model)
    opt.register_step_pre_hook(ckpt.guard_step)
    for step in range(steps):
        loss = model(torch.randn(32, 2048, device="cuda")).abs().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 5 == 4:
            ckpt.save(f"{path}/{step}.pt")
    ckpt.wait_written()


if __name__ == "__main__":
    train("/tmp")
