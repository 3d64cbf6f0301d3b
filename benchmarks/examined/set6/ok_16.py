from typing import List

import torch
import torch.distributed as dist
from torch import nn


class GraphedDataParallelStep:
    """Forward, backward and gradient all-reduce of one micro batch as a CUDA graph."""

    def __init__(self, model: nn.Module, loss_fn, optimizer, process_group=None, warmup: int = 11):
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.process_group = process_group
        self.warmup = warmup
        self.graph = None
        self.works: List[dist.Work] = []

    def _forward_backward(self) -> torch.Tensor:
        loss = self.loss_fn(self.model(self.static_input), self.static_target)
        loss.backward()
        return loss

    def _launch_all_reduce(self) -> List[dist.Work]:
        works = []
        for param in self.model.parameters():
            if param.grad is not None:
                works.append(
                    dist.all_reduce(
                        param.grad,
                        op=dist.ReduceOp.AVG,
                        group=self.process_group,
                        async_op=True,
                    )
                )
        return works

    def _finish_all_reduce(self) -> None:
        for work in self.works:
            work.wait()
        self.works = []

    def capture(self, example_input: torch.Tensor, example_target: torch.Tensor) -> None:
        self.static_input = example_input.clone()
        self.static_target = example_target.clone()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self.warmup):
                self.optimizer.zero_grad(set_to_none=True)
                self._forward_backward()
                self.works = self._launch_all_reduce()
                self._finish_all_reduce()
        torch.cuda.current_stream().wait_stream(side)

        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.static_loss = self._forward_backward()
            self.works = self._launch_all_reduce()
            self._finish_all_reduce()

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            self.capture(inputs, targets)
        self.static_input.copy_(inputs)
        self.static_target.copy_(targets)
        self.graph.replay()
        self.optimizer.step()
        return self.static_loss.detach().clone()
