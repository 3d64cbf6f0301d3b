import weakref
from typing import List, Sequence

import torch
from torch import nn


def _static_args_like(args: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    return [torch.zeros_like(a) for a in args]


class _GraphRunner:
    """Owns the forward graph of one transformer layer."""

    mempool = None

    def __init__(self, base_module: nn.Module):
        self.base_module = base_module
        self.fwd_graph = None
        self.fwd_graph_input_surface: List[weakref.ref] = []
        self.fwd_graph_output: torch.Tensor = None

    def create_fwd_graph(self, args: Sequence[torch.Tensor]) -> None:
        static_args = _static_args_like(args)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.base_module(*static_args)
        torch.cuda.current_stream().wait_stream(side)

        if _GraphRunner.mempool is None:
            _GraphRunner.mempool = torch.cuda.graph_pool_handle()
        self.fwd_graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.fwd_graph, pool=_GraphRunner.mempool):
            self.fwd_graph_output = self.base_module(*static_args)
        self.fwd_graph_input_surface = [weakref.ref(a) for a in static_args]

    def replay_graph_capture(self, args: Sequence[torch.Tensor]) -> torch.Tensor:
        for ref, arg in zip(self.fwd_graph_input_surface, args):
            static_arg = ref()
            if static_arg is not None and static_arg.data_ptr() != arg.data_ptr():
                static_arg.copy_(arg)
        self.fwd_graph.replay()
        return self.fwd_graph_output.clone()


class CudaGraphManager:
    def __init__(self, warmup_steps: int = 3):
        self.warmup_steps = warmup_steps
        self.calls = 0
        self.runners = {}

    def __call__(self, module: nn.Module, args: Sequence[torch.Tensor]) -> torch.Tensor:
        key = (id(module), tuple(a.shape for a in args))
        self.calls += 1
        if self.calls <= self.warmup_steps:
            return module(*args)
        runner = self.runners.get(key)
        if runner is None:
            runner = self.runners[key] = _GraphRunner(module)
            runner.create_fwd_graph(args)
        return runner.replay_graph_capture(args)


class GraphedStack(nn.Module):
    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.manager = CudaGraphManager()

    @torch.no_grad()
    def forward(self, hidden: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden = self.manager(layer, (hidden, rotary))
        return hidden
