"""Graphed forward and backward of a module, used under gradient accumulation."""
from typing import Callable, Iterable, Tuple

import torch
from torch import nn


def make_graphed_module(module: nn.Module, sample_input: torch.Tensor, num_warmup_iters: int = 3) -> Callable:
    module_params = tuple(p for p in module.parameters() if p.requires_grad)
    static_input = sample_input.detach().clone().requires_grad_(True)
    static_inputs = (static_input,) + module_params

    torch.cuda.synchronize()
    side_stream = torch.cuda.Stream()
    with torch.cuda.stream(side_stream):
        for _ in range(num_warmup_iters):
            out = module(static_input)
            grads = torch.autograd.grad(out, static_inputs, grad_outputs=torch.empty_like(out), allow_unused=True)
            del out, grads
    torch.cuda.synchronize()

    mempool = torch.cuda.graph_pool_handle()
    fwd_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(fwd_graph, pool=mempool):
        static_output = module(static_input)

    static_grad_output = torch.empty_like(static_output)
    bwd_graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(bwd_graph, pool=mempool):
        static_grad_inputs = torch.autograd.grad(
            static_output, static_inputs, grad_outputs=static_grad_output, allow_unused=True,
        )

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inp: torch.Tensor, *params: torch.Tensor) -> torch.Tensor:
            if static_input.data_ptr() != inp.data_ptr():
                static_input.data.copy_(inp)
            fwd_graph.replay()
            return static_output.detach()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output: torch.Tensor):
            if static_grad_output.data_ptr() != grad_output.data_ptr():
                static_grad_output.copy_(grad_output)
            bwd_graph.replay()
            # AccumulateGrad may keep what it gets as param.grad, and the next replay writes the static buffers
            return tuple(b.clone() if b is not None else b for b in static_grad_inputs)

    def functionalized(inp: torch.Tensor) -> torch.Tensor:
        return Graphed.apply(inp, *module_params)

    return functionalized


class AccumulatingTrainer:
    def __init__(self, module: nn.Module, head: nn.Module, optimizer: torch.optim.Optimizer,
                 sample_input: torch.Tensor, grad_accum_steps: int):
        self.graphed = make_graphed_module(module, sample_input)
        self.head = head
        self.optimizer = optimizer
        self.grad_accum_steps = grad_accum_steps

    def train_step(self, micro_batches: Iterable[Tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device="cuda")
        for inputs, target in micro_batches:
            hidden = self.graphed(inputs)
            loss = nn.functional.cross_entropy(self.head(hidden), target) / self.grad_accum_steps
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        return total
