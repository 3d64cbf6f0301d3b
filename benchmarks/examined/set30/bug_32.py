"""Checkpoints a model from a background thread while training goes on."""
import os
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class BackgroundCheckpointer:
    """Stages parameters in pinned memory on its own stream, then writes a file."""

    def __init__(self, model, folder, device="cuda"):
        self.folder = folder
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        self.staging = {
            name: torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            for name, t in self.tensors.items()
        }
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ckpt")
        self.running = None
        os.makedirs(folder, exist_ok=True)

    def save(self, step):
        self.wait()
        settled = torch.cuda.current_stream(self.device).record_event()
        self.running = self.pool.submit(self._stage_and_write, step, settled)

    def _stage_and_write(self, step, settled):
        with torch.no_grad(), torch.cuda.stream(self.stream):
            self.stream.wait_event(settled)
            for name, tensor in self.tensors.items():
                self.staging[name].copy_(tensor, non_blocking=True)
        self.stream.synchronize()
        path = os.path.join(self.folder, f"step_{step:07d}.pt")
        torch.save({"step": step, "model": self.staging}, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def wait(self):
        if self.running is not None:
            path = self.running.result()
            self.running = None
            return path
        return None

    def close(self):
        self.wait()
        self.pool.shutdown()


class Trainer:
    def __init__(self, model, folder, lr=3e-4, every=100):
        self.model = model.cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.checkpointer = BackgroundCheckpointer(self.model, folder)
        self.every = every
        self.step_count = 0

    def train_step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.step_count += 1
        if self.step_count % self.every == 0:
            self.checkpointer.save(self.step_count)
        return loss.detach()

    def fit(self, batches):
        total = torch.zeros((), device="cuda")
        for x, y in batches:
            x = x.cuda(non_blocking=True)
            y = y.cuda(non_blocking=True)
            total += self.train_step(x, y)
        self.checkpointer.close()
        return total.item() / max(1, self.step_count)
