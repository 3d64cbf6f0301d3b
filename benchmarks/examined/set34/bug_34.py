"""Small task graph: device producers, host consumers, one event per output."""
import queue
import threading
from typing import Callable, List

import torch


class Output:
    def __init__(self, numel: int):
        self.host = torch.zeros(numel, pin_memory=True)
        self.event = torch.cuda.Event()
        self.idle = threading.Event()
        self.idle.set()


class HostLane(threading.Thread):
    """Runs CPU-side primitives once the outputs they depend on are available."""

    def __init__(self):
        super().__init__(daemon=True)
        self.tasks: "queue.Queue" = queue.Queue()
        self.start()

    def submit(self, output: Output, fn: Callable[[torch.Tensor], None]) -> None:
        self.tasks.put((output, fn))

    def close(self) -> None:
        self.tasks.put(None)
        self.join()

    def run(self) -> None:
        while True:
            item = self.tasks.get()
            if item is None:
                return
            output, fn = item
            output.event.synchronize()
            fn(output.host)
            output.idle.set()


class DeviceLane:
    def __init__(self, device: torch.device, numel: int, depth: int):
        self.stream = torch.cuda.Stream(device)
        self.ring: List[Output] = [Output(numel) for _ in range(depth)]
        self.turn = 0
        with torch.cuda.stream(self.stream):
            self.state = torch.randn(64, numel, device=device)
            self.mix = torch.randn(64, 64, device=device) / 8.0

    def eval_stats(self) -> Output:
        output = self.ring[self.turn]
        self.turn = (self.turn + 1) % len(self.ring)
        output.idle.wait()
        output.idle.clear()
        with torch.cuda.stream(self.stream):
            self.state = torch.tanh(self.mix @ self.state)
            output.event.record(self.stream)
            total = self.state.sum(dim=0)
            output.host.copy_(total, non_blocking=True)
        return output


class Monitor:
    def __init__(self):
        self.values: List[float] = []

    def __call__(self, host: torch.Tensor) -> None:
        self.values.append(float(host.abs().max()))


def main(rounds: int = 400) -> None:
    device = torch.device("cuda", 0)
    lane = DeviceLane(device, numel=1 << 18, depth=4)
    host = HostLane()
    monitor = Monitor()
    for _ in range(rounds):
        output = lane.eval_stats()
        host.submit(output, monitor)
    host.close()
    lane.stream.synchronize()
    print(max(monitor.values), len(monitor.values))


if __name__ == "__main__":
    main()
