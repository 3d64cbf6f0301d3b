"""Checkpoints are written by a background thread from pinned snapshots."""
import os
import queue
import threading

import torch
import torch.nn as nn


class AsyncCheckpointer:
    def __init__(self, model, directory):
        self.directory = directory
        self.tensors = model.state_dict()
        self.pinned = {k: torch.empty(v.shape, dtype=v.dtype, pin_memory=True) for k, v in self.tensors.items()}
        self.stream = torch.cuda.Stream()
        self.idle = threading.Event()
        self.idle.set()
        self.requests = queue.Queue()
        self.thread = threading.Thread(target=self._writer, daemon=True)
        self.thread.start()

    def save(self, step):
        self.idle.wait()
        self.idle.clear()
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            for name, tensor in self.tensors.items():
                self.pinned[name].copy_(tensor, non_blocking=True)
        copied = self.stream.record_event()
        current.wait_event(copied)
        self.requests.put((step, copied))

    def _writer(self):
        while True:
            item = self.requests.get()
            if item is None:
                return
            step, copied = item
            copied.synchronize()
            path = os.path.join(self.directory, f"step{step:07d}.pt")
            torch.save(self.pinned, path + ".tmp")
            os.replace(path + ".tmp", path)
            self.idle.set()

    def close(self):
        self.requests.put(None)
        self.thread.join()


def main(directory="checkpoints"):
    os.makedirs(directory, exist_ok=True)
    model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    checkpointer = AsyncCheckpointer(model, directory)
    for step in range(1, 1001):
        x = torch.randn(64, 4096, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            checkpointer.save(step)
    checkpointer.close()


if __name__ == "__main__":
    main()
