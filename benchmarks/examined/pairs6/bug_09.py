"""Periodic snapshots of a language model; serialization happens in a worker thread."""
import pathlib
import threading
from queue import Queue

import torch
import torch.nn as nn


class SnapshotWorker(threading.Thread):
    def __init__(self, root):
        super().__init__(daemon=True)
        self.root = pathlib.Path(root)
        self.inbox = Queue(maxsize=1)

    def run(self):
        for step, state in iter(self.inbox.get, None):
            torch.cuda.current_stream().synchronize()
            torch.save(state, self.root / f"model-{step}.pt")


class Snapshotter:
    def __init__(self, model, root):
        self.model = model
        self.copy_stream = torch.cuda.Stream()
        self.worker = SnapshotWorker(root)
        self.worker.start()

    @torch.no_grad()
    def take(self, step):
        frozen = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        state = {}
        with torch.cuda.stream(self.copy_stream):
            for k, v in frozen.items():
                host = torch.empty(v.shape, dtype=v.dtype, pin_memory=True)
                host.copy_(v, non_blocking=True)
                v.record_stream(self.copy_stream)
                state[k] = host
        self.worker.inbox.put((step, state))

    def finish(self):
        self.worker.inbox.put(None)
        self.worker.join()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50257, 768), nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 50257)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    snapshotter = Snapshotter(model, "/checkpoints/lm")
    for step in range(2000):
        tokens = torch.randint(0, 50257, (8, 257), device="cuda")
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 250 == 249:
            snapshotter.take(step)
    snapshotter.finish()


if __name__ == "__main__":
    main()
