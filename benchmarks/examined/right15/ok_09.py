"""Checkpoints written by a thread from pinned snapshots of the parameters."""
import queue
import threading

import torch
from torch import nn


class CheckpointWriter:
    def __init__(self, module, copies=2):
        self.module = module
        tensors = {k: v for k, v in module.state_dict().items()}
        self.device = next(iter(tensors.values())).device
        self.stream = torch.cuda.Stream(self.device)
        self._spare = queue.Queue()
        for _ in range(copies):
            self._spare.put({k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
                             for k, v in tensors.items()})
        self._jobs = queue.Queue()
        self._errors = []
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def save(self, path):
        if self._errors:
            raise self._errors.pop()
        host = self._spare.get()
        current = torch.cuda.current_stream(self.device)
        copied = torch.cuda.Event()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            for key, value in self.module.state_dict().items():
                host[key].copy_(value, non_blocking=True)
            copied.record()
        current.wait_event(copied)
        self._jobs.put((path, host, copied))

    def _drain(self):
        torch.cuda.set_device(self.device)
        while True:
            job = self._jobs.get()
            if job is None:
                return
            path, host, copied = job
            try:
                copied.synchronize()
                torch.save(host, path)
            except Exception as error:
                self._errors.append(error)
            finally:
                self._spare.put(host)

    def close(self):
        self._jobs.put(None)
        self._thread.join()
        if self._errors:
            raise self._errors.pop()


def main(steps=100, every=20):
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(256, 1024), nn.Tanh(), nn.Linear(1024, 256)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    writer = CheckpointWriter(model)
    try:
        for step in range(steps):
            x = torch.randn(128, 256, device=device)
            (model(x) - x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if step % every == 0:
                writer.save(f"/tmp/model_{step}.pt")
    finally:
        writer.close()


if __name__ == "__main__":
    main()
