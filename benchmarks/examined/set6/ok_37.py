from collections import deque
from typing import Deque

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, *size: int, dtype: torch.dtype, device, max_concurrency: int = 2):
        if max_concurrency < 2:
            raise ValueError("max_concurrency must be at least 2")
        self.gpu = torch.zeros(*size, dtype=dtype, device=device)
        self._cpu = [
            torch.zeros(*size, dtype=dtype, pin_memory=True) for _ in range(max_concurrency)
        ]
        self._index = 0

    def next(self) -> np.ndarray:
        self._index = (self._index + 1) % len(self._cpu)
        return self._cpu[self._index].numpy()

    def copy_to_gpu(self, n: int) -> torch.Tensor:
        return self.gpu[:n].copy_(self._cpu[self._index][:n], non_blocking=True)


class StepOutput:
    def __init__(self, sampled: torch.Tensor):
        self.sampled = sampled
        self.host = sampled.to("cpu", non_blocking=True)
        self.done = torch.cuda.Event()
        self.done.record()

    def result(self) -> np.ndarray:
        self.done.synchronize()
        return self.host.numpy()


class ModelRunner:
    def __init__(self, model, max_reqs: int, device):
        self.model = model
        self.positions = CpuGpuBuffer(max_reqs, dtype=torch.long, device=device)
        self.slots = CpuGpuBuffer(max_reqs, dtype=torch.long, device=device)
        self.tokens = torch.zeros(max_reqs, dtype=torch.long, device=device)

    @torch.inference_mode()
    def execute(self, positions: np.ndarray, slots: np.ndarray) -> StepOutput:
        n = len(positions)
        self.positions.next()[:n] = positions
        self.slots.next()[:n] = slots
        logits = self.model(
            self.tokens[:n], self.positions.copy_to_gpu(n), self.slots.copy_to_gpu(n)
        )
        sampled = logits.argmax(dim=-1)
        self.tokens[:n] = sampled
        return StepOutput(sampled)


class EngineCore:
    """Keeps one step in flight while the next one is prepared."""

    def __init__(self, runner: ModelRunner, scheduler):
        self.runner = runner
        self.scheduler = scheduler
        self.in_flight: Deque[tuple] = deque()

    def step(self) -> bool:
        plan = self.scheduler.schedule()
        if plan is not None:
            output = self.runner.execute(plan.positions, plan.slots)
            self.in_flight.append((plan, output))
        if self.in_flight and (len(self.in_flight) > 1 or plan is None):
            finished, output = self.in_flight.popleft()
            self.scheduler.update(finished, output.result())
        return bool(self.in_flight) or plan is not None

    def run(self) -> None:
        while self.step():
            pass
