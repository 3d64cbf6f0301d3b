"""Device resident mirror of a host replay buffer, fed by a background thread."""
import threading

import torch


class AppendOnlyMirror:
    def __init__(self, capacity, width, device):
        self.capacity = capacity
        self.device = device
        self.host = torch.empty(capacity, width, pin_memory=True)
        self.storage = torch.empty(capacity, width, device=device)
        torch.cuda.synchronize(device)
        self.cond = threading.Condition()
        self.written = 0
        self.visible = 0
        self.closed = False
        self._thread = threading.Thread(target=self._mirror, daemon=True)
        self._thread.start()

    def add(self, rows):
        with self.cond:
            n = min(rows.shape[0], self.capacity - self.written)
            self.host[self.written:self.written + n] = rows[:n]
            self.written += n
            self.cond.notify_all()

    def _mirror(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        landed = torch.cuda.Event(blocking=True)
        while True:
            with self.cond:
                self.cond.wait_for(lambda: self.closed or self.visible < self.written)
                if self.closed:
                    return
                lo, hi = self.visible, self.written
            with torch.cuda.stream(stream):
                self.storage[lo:hi].copy_(self.host[lo:hi], non_blocking=True)
                landed.record(stream)
            landed.synchronize()
            with self.cond:
                self.visible = hi
                self.cond.notify_all()

    def sample(self, batch):
        with self.cond:
            self.cond.wait_for(lambda: self.visible > 0)
            limit = self.visible
        idx = torch.randint(limit, (batch,), device=self.device)
        return self.storage.index_select(0, idx)

    def close(self):
        with self.cond:
            self.closed = True
            self.cond.notify_all()
        self._thread.join()


def main():
    device = torch.device("cuda:0")
    replay = AppendOnlyMirror(1_000_000, 96, device)
    net = torch.nn.Linear(96, 1).to(device)
    for _ in range(400):
        replay.add(torch.randn(2048, 96))
        net(replay.sample(4096)).square().mean().backward()
    replay.close()


if __name__ == "__main__":
    main()
