"""Snapshot parameters for checkpoints while training goes on."""
import pathlib
import threading

import torch
from torch import nn


class Snapshotter:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, folder: str):
        self.model = model
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.stream = torch.cuda.Stream()
        self.host = {k: torch.empty_like(v, device="cpu", pin_memory=True) for k, v in model.state_dict().items()}
        self.copied: torch.cuda.Event | None = None
        self.writer: threading.Thread | None = None
        optimizer.register_step_pre_hook(self._hold)

    def _hold(self, *_):
        if self.copied is not None:
            torch.cuda.current_stream().wait_event(self.copied)

    def take(self, step: int):
        self.finish()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for k, v in self.model.state_dict().items():
                self.host[k].copy_(v, non_blocking=True)
        self.copied = self.stream.record_event()
        self.writer = threading.Thread(target=self._write, args=(step, self.copied))
        self.writer.start()

    def _write(self, step: int, copied: torch.cuda.Event):
        copied.synchronize()
        torch.save(self.host, self.folder / f"step{step}.pt")

    def finish(self):
        if self.writer is not None:
            self.writer.join()
            self.writer = None


def main():
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
    opt = torch.optim.AdamW(net.parameters())
    snaps = Snapshotter(net, opt, "ckpt")
    for step in range(200):
        x = torch.randn(128, 512, device="cuda")
        loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 50 == 0:
            snaps.take(step)
    snaps.finish()


if __name__ == "__main__":
    main()
