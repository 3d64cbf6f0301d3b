"""Device resident mirror of a host replay buffer, fed by a background thread."""
import threading
import time

import torch


class ReplayMirror:
    def __init__(self, capacity, width, device):
        self.capacity = capacity
        self.device = device
        self.host = torch.empty(capacity, width, pin_memory=True)
        self.storage = torch.empty(capacity, width, device=device)
        self.stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)
        self.written = 0
        self.visible = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._mirror, daemon=True)
        self._thread.start()

    def add(self, rows):
        n = min(rows.shape[0], self.capacity - self.written)
        self.host[self.written:self.written + n] = rows[:n]
        self.written += n

    def _mirror(self):
        torch.cuda.set_device(self.device)
        while not self._stop.is_set():
            lo, hi = self.visible, self.written
            if lo == hi:
                time.sleep(0.001)
                continue
            with torch.cuda.stream(self.stream):
                self.storage[lo:hi].copy_(self.host[lo:hi], non_blocking=True)
            self.visible = hi

    def sample(self, batch):
        limit = self.visible
        idx = torch.randint(limit, (batch,), device=self.device)
        return self.storage.index_select(0, idx)

    def close(self):
        self._stop.set()
        self._thread.join()


def main():
    device = torch.device("cuda:0")
    replay = ReplayMirror(1_000_000, 96, device)
    critic = torch.nn.Sequential(
        torch.nn.Linear(96, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)
    ).to(device)
    opt = torch.optim.Adam(critic.parameters(), lr=3e-4)
    for it in range(500):
        replay.add(torch.randn(2048, 96))
        if replay.visible < 4096:
            continue
        loss = critic(replay.sample(4096)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    replay.close()


if __name__ == "__main__":
    main()
