"""Snapshots during training: device copies are staged while training goes on."""
import threading

import torch
from torch import nn


class SnapshotWriter:
    def __init__(self, module, optimizer, path):
        self.module = module
        self.path = path
        self.stream = torch.cuda.Stream()
        self.staged = torch.cuda.Event()
        self.host = {
            k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
            for k, v in module.state_dict().items()
        }
        self.thread = None
        optimizer.register_step_pre_hook(lambda *_: torch.cuda.current_stream().wait_event(self.staged))

    def save(self, step):
        self.wait()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for key, value in self.module.state_dict().items():
                self.host[key].copy_(value, non_blocking=True)
            self.staged.record()
        self.thread = threading.Thread(target=self._write, args=(step,))
        self.thread.start()

    def _write(self, step):
        self.staged.synchronize()
        torch.save({"step": step, "model": self.host}, f"{self.path}/step_{step}.pt")

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-4)
    writer = SnapshotWriter(model, opt, "/tmp")
    for step in range(1, 301):
        x = torch.randn(64, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 100 == 0:
            writer.save(step)
    writer.wait()


if __name__ == "__main__":
    main()
