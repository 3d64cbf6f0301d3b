"""Checkpoints written by a background thread."""
import queue
import threading

import torch
import torch.nn as nn


class AsyncCheckpointer:
    def __init__(self, model, optimizer, directory="."):
        self.model = model
        self.directory = directory
        self.stream = torch.cuda.Stream()
        self.staged = None
        self.jobs = queue.Queue()
        self.thread = threading.Thread(target=self._worker, daemon=True)
        self.thread.start()
        optimizer.register_step_pre_hook(self._guard)

    def _guard(self, *_):
        if self.staged is not None:
            torch.cuda.current_stream().wait_event(self.staged)
            self.staged = None

    def save(self, step):
        self.stream.wait_stream(torch.cuda.current_stream())
        snapshot = {}
        with torch.cuda.stream(self.stream):
            for name, value in self.model.state_dict().items():
                host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                snapshot[name] = host.copy_(value, non_blocking=True)
            self.staged = self.stream.record_event()
        self.jobs.put((step, snapshot, self.staged))

    def _worker(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            step, snapshot, staged = job
            staged.synchronize()
            torch.save(snapshot, f"{self.directory}/step_{step}.pt")

    def close(self):
        self.jobs.put(None)
        self.thread.join()


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    checkpointer = AsyncCheckpointer(model, opt)
    for step in range(1000):
        x = torch.randn(64, 2048, device="cuda")
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        if step % 100 == 0:
            checkpointer.save(step)
    checkpointer.close()


if __name__ == "__main__":
    main()
