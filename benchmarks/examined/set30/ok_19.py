"""Checkpoints without stopping: weights are copied out while the next forward pass already runs."""
import os
import threading

import torch
from torch import nn


class Snapshot:
    """Host copies of all parameters and the event behind the last of them."""

    def __init__(self, module):
        self.host = {k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
                     for k, v in module.state_dict().items()}
        self.copied = torch.cuda.Event()
        self.writer = None

    def join(self):
        if self.writer is not None:
            self.writer.join()
            self.writer = None


class BackgroundCheckpointer:
    def __init__(self, module, optimizer, directory):
        self.module = module
        self.directory = directory
        self.stream = torch.cuda.Stream()
        self.snapshot = Snapshot(module)
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, *_):
        torch.cuda.current_stream().wait_event(self.snapshot.copied)

    @torch.no_grad()
    def save(self, step):
        snap = self.snapshot
        snap.join()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, tensor in self.module.state_dict().items():
                snap.host[name].copy_(tensor, non_blocking=True)
            snap.copied.record()
        snap.writer = threading.Thread(target=self._write, args=(snap, step))
        snap.writer.start()

    def _write(self, snap, step):
        snap.copied.synchronize()
        path = os.path.join(self.directory, f"step_{step:06d}.pt")
        torch.save(snap.host, path + ".tmp")
        os.replace(path + ".tmp", path)

    def close(self):
        self.snapshot.join()


def make_model(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train(directory, steps=200, every=20, width=2048, depth=16, batch=512, device="cuda"):
    model = make_model(width, depth).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    saver = BackgroundCheckpointer(model, opt, directory)
    for step in range(1, steps + 1):
        x = torch.randn(batch, width, device=device)
        y = torch.randint(0, 10, (batch,), device=device)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % every == 0:
            saver.save(step)
    saver.close()
    return loss.item()
