import contextlib
from dataclasses import dataclass

import torch


@dataclass
class Lanes:
    device: str = "cuda:0"
    priority: int = -1
    dedicated: bool = True

    def open(self):
        if not self.dedicated:
            return torch.cuda.default_stream(torch.device(self.device))
        return torch.cuda.Stream(self.device, priority=self.priority)


class Runner:
    """Runs decoding steps of one tower on the lane that the options ask for."""

    def __init__(self, tower, past, lanes):
        self.tower = tower
        self.past = past
        self.lane = lanes.open()
        self.lane.wait_stream(torch.cuda.current_stream())
        self.steps = 0

    @contextlib.contextmanager
    def _inside(self):
        with torch.cuda.stream(self.lane), torch.inference_mode():
            yield

    def decode(self, x, steps):
        with self._inside():
            self.past.prefetch(0)
            for _ in range(steps):
                x = self.tower(x, self.past)
                self.steps += 1
        self.lane.synchronize()
        return x
