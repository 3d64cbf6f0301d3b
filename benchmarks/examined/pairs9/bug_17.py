"""Background checkpointing of a fine-tuning job through a pinned staging area."""
import queue
import threading

import torch
from torch import nn


class CheckpointWorker(threading.Thread):
    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory = directory
        self.tasks = queue.Queue()

    def run(self):
        while True:
            task = self.tasks.get()
            if task is None:
                return
            step, tensors, copied = task
            copied.wait()
            torch.save(tensors, f"{self.directory}/adapter_{step:06d}.pt")


class Checkpointer:
    def __init__(self, directory, every):
        self.worker = CheckpointWorker(directory)
        self.worker.start()
        self.every = every
        self.stream = torch.cuda.Stream()

    def _stage(self, module):
        self.stream.wait_stream(torch.cuda.current_stream())
        out = {}
        with torch.cuda.stream(self.stream):
            for name, p in module.named_parameters():
                host = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
                out[name] = host.copy_(p.detach(), non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        torch.cuda.current_stream().wait_event(copied)
        return out, copied

    def maybe_save(self, step, module):
        if step % self.every == 0:
            tensors, copied = self._stage(module)
            self.worker.tasks.put((step, tensors, copied))

    def close(self):
        self.worker.tasks.put(None)
        self.worker.join()


def main():
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ckpt = Checkpointer("/tmp", every=25)
    for step in range(1, 201):
        x = torch.randn(128, 4096, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ckpt.maybe_save(step, model)
    ckpt.close()


if __name__ == "__main__":
    main()
