"""Metrics collected by a polling thread."""
import queue
import threading
import time

import torch
import torch.nn as nn


class MetricWriter(threading.Thread):
    def __init__(self, path, capacity=32):
        super().__init__(daemon=True)
        self.path = path
        self.slots = queue.Queue()
        for _ in range(capacity):
            self.slots.put((torch.empty(3, pin_memory=True), torch.cuda.Event()))
        self.inbox = queue.Queue()

    def report(self, step, *scalars):
        host, event = self.slots.get()
        host.copy_(torch.stack([s.detach().float() for s in scalars]), non_blocking=True)
        event.record()
        self.inbox.put((step, host, event))

    def run(self):
        with open(self.path, "w") as f:
            while True:
                item = self.inbox.get()
                if item is None:
                    return
                step, host, event = item
                while not event.query():
                    time.sleep(0.001)
                f.write(f"{step} {host.tolist()}\n")
                self.slots.put((host, event))

    def close(self):
        self.inbox.put(None)
        self.join()


def main():
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    writer = MetricWriter("metrics.txt")
    writer.start()
    for step in range(2000):
        x = torch.randn(512, 256, device="cuda")
        out = model(x)
        loss = out.pow(2).mean()
        opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        writer.report(step, loss, norm, out.max())
    writer.close()


if __name__ == "__main__":
    main()
