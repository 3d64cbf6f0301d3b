"""Activation statistics reported from a monitor thread."""
from __future__ import annotations

import threading
import time

import torch
from torch import nn


class Monitor:
    def __init__(self, device: torch.device, period: float = 0.5) -> None:
        self.device = device
        self.period = period
        self.stream = torch.cuda.Stream(device)
        self.lock = threading.Lock()
        self.latest: tuple[int, torch.Tensor, torch.cuda.Event] | None = None
        self.reports: list[tuple[int, list[float]]] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._loop, daemon=True)

    def start(self) -> "Monitor":
        self.thread.start()
        return self

    def publish(self, step: int, activation: torch.Tensor) -> None:
        snapshot = activation.detach().flatten(1).mean(0)
        event = torch.cuda.current_stream(self.device).record_event()
        with self.lock:
            previous, self.latest = self.latest, (step, snapshot, event)
        del previous

    def _take(self):
        with self.lock:
            item, self.latest = self.latest, None
        return item

    def _report(self) -> None:
        item = self._take()
        if item is None:
            return
        step, snapshot, event = item
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(event)
            ordered = snapshot.sort().values
            marks = ordered[:: max(1, ordered.numel() // 8)]
            values = marks.cpu()
        self.reports.append((step, values.tolist()))

    def _loop(self) -> None:
        torch.cuda.set_device(self.device)
        while not self.stop.wait(self.period):
            self._report()
        self._report()

    def close(self) -> list[tuple[int, list[float]]]:
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join()
        return self.reports


class Probe(nn.Module):
    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.monitor = monitor
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.monitor.publish(self.step, x)
        self.step += 1
        return x.relu_()


def main() -> None:
    device = torch.device("cuda:0")
    monitor = Monitor(device, 0.05).start()
    net = nn.Sequential(nn.Linear(256, 512), Probe(monitor), nn.Linear(512, 10)).to(device)
    deadline = time.monotonic() + 2.0
    with torch.no_grad():
        while time.monotonic() < deadline:
            net(torch.randn(1024, 256, device=device))
    for step, values in monitor.close():
        print(step, ["%.3f" % v for v in values])


if __name__ == "__main__":
    main()
