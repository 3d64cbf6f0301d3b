"""A whole training step, captured once and replayed."""
from typing import Callable, Sequence

import torch


class StepRunner:
    def __init__(self, step_fn: Callable, example: Sequence[torch.Tensor], warmup: int = 3):
        self.inputs = [t.clone() for t in example]
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                step_fn(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.output = step_fn(*self.inputs)
        torch.cuda.synchronize()

    def __call__(self, after: torch.cuda.Event) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(after)
        self.graph.replay()
        return self.output

    @property
    def input_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.inputs)

    def check(self, batch: Sequence[torch.Tensor]) -> None:
        """A captured step takes one shape only."""
        for place, t in zip(self.inputs, batch):
            if place.shape != t.shape or place.dtype != t.dtype:
                raise ValueError(f"captured for {tuple(place.shape)} {place.dtype}, "
                                 f"got {tuple(t.shape)} {t.dtype}")
