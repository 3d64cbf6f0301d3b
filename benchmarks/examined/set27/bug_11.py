import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import torch


class HostShadow:
    """Pinned host copies of all parameters and buffers of a module."""

    def __init__(self, module):
        self.module = module
        self.stream = torch.cuda.Stream()
        self.tensors = {
            name: torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            for name, t in self._named_tensors()
        }

    def _named_tensors(self):
        return itertools.chain(self.module.named_parameters(), self.module.named_buffers())

    @torch.no_grad()
    def refresh(self):
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            for name, t in self._named_tensors():
                self.tensors[name].copy_(t, non_blocking=True)
        current.wait_stream(self.stream)


class CheckpointWriter:
    """Serializes host tensors in the background."""

    def __init__(self, root):
        self.root = root
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending = None

    def wait(self):
        if self.pending is not None:
            self.pending.result()
            self.pending = None

    def submit(self, tensors, step):
        self.wait()
        self.pending = self.pool.submit(self._write, tensors, step)

    def _write(self, tensors, step):
        path = os.path.join(self.root, f"step_{step:06d}")
        os.makedirs(path, exist_ok=True)
        for name, t in tensors.items():
            with open(os.path.join(path, name + ".bin"), "wb") as f:
                f.write(t.view(-1).view(torch.uint8).numpy().tobytes())
        with open(os.path.join(path, "DONE"), "w") as f:
            f.write(str(step))


class FineTuneWorker:
    def __init__(self, model, optimizer, root, save_every):
        self.model = model
        self.optimizer = optimizer
        self.shadow = HostShadow(model)
        self.writer = CheckpointWriter(root)
        self.save_every = save_every
        self.step = 0

    def forward_backward(self, batch, labels, loss_fn):
        batch = batch.pin_memory().to("cuda", non_blocking=True)
        labels = labels.pin_memory().to("cuda", non_blocking=True)
        loss = loss_fn(self.model(batch), labels)
        loss.backward()
        return loss.detach()

    def optim_step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        if self.step % self.save_every == 0:
            self.writer.wait()
            self.shadow.refresh()
            self.writer.submit(self.shadow.tensors, self.step)

    def close(self):
        self.writer.wait()
        self.writer.pool.shutdown()


def run(worker, loader, loss_fn):
    losses = []
    for batch, labels in loader:
        losses.append(worker.forward_backward(batch, labels, loss_fn))
        worker.optim_step()
    worker.close()
    return torch.stack(losses).mean().item()
