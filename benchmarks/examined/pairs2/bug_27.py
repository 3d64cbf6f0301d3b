"""Non-blocking scalar tracker with a bounded backlog."""
import threading
import time
from collections import deque

import torch
import torch.nn as nn


class ScalarTracker:
    def __init__(self, max_backlog=16):
        self.max_backlog = max_backlog
        self.backlog = deque()
        self.cond = threading.Condition()
        self.series = []
        self.running = True
        self.thread = threading.Thread(target=self._drain)
        self.thread.start()

    def add(self, name, value):
        host = torch.empty((), pin_memory=True)
        host.copy_(value.detach(), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        with self.cond:
            self.backlog.append((name, host, event))
            self.cond.notify()

    def _drain(self):
        while True:
            with self.cond:
                while self.running and not self.backlog:
                    self.cond.wait()
                if not self.backlog:
                    return
                name, host, event = self.backlog[0]
                if event.query() or len(self.backlog) > self.max_backlog:
                    self.backlog.popleft()
                    self.series.append((name, host.item()))
                    continue
            time.sleep(0.002)

    def stop(self):
        with self.cond:
            self.running = False
            self.cond.notify()
        self.thread.join()
        return self.series


def main():
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(20)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    tracker = ScalarTracker()
    for _ in range(1000):
        loss = model(torch.randn(2048, 1024, device="cuda")).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        tracker.add("loss", loss)
    series = tracker.stop()
    print(len(series), series[-1])


if __name__ == "__main__":
    main()
