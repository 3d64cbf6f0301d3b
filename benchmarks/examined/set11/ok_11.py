"""Breakable CUDA graph: a model captured as segments with eager calls in between."""
from dataclasses import dataclass
from typing import Any, Callable, List, Sequence, Tuple

import torch
from sglang.srt.compilation.weak_ref_tensor import weak_ref_tensors

Segment = Callable[[torch.Tensor, torch.Tensor], Tuple[torch.Tensor, torch.Tensor]]


@dataclass
class _Step:
    graph: torch.cuda.CUDAGraph
    outputs: Any
    eager: Callable[[torch.Tensor], None]


class BreakableCudaGraph:
    """All segments share one memory pool, so a later segment can reuse what an earlier one is done with."""

    def __init__(self, num_tokens: int, hidden_size: int, aux_layers: Sequence[int] = (), dtype=torch.bfloat16):
        self.static_input = torch.zeros(num_tokens, hidden_size, dtype=dtype, device="cuda")
        self.static_residual = torch.zeros_like(self.static_input)
        self.aux_layers = tuple(aux_layers)
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()
        self.steps: List[_Step] = []

    def _warmup(self, layers: Sequence[Tuple[Segment, Callable[[torch.Tensor], None]]]) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            hidden, residual = self.static_input, self.static_residual
            for segment, eager in layers:
                hidden, residual = segment(hidden, residual)
                eager(hidden)
        torch.cuda.current_stream().wait_stream(self.stream)

    @torch.inference_mode()
    def capture(self, layers: Sequence[Tuple[Segment, Callable[[torch.Tensor], None]]]) -> None:
        self._warmup(layers)
        args = (self.static_input, self.static_residual)
        for segment, eager in layers:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                outputs = segment(*args)
            args = outputs
            if len(self.steps) in self.aux_layers:
                # read after the last segment has run, so its memory must not go back to the pool
                self.steps.append(_Step(graph, outputs, eager))
            else:
                self.steps.append(_Step(graph, weak_ref_tensors(outputs), eager))
            del outputs

    @torch.inference_mode()
    def replay(self, hidden_states: torch.Tensor) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        num_tokens = hidden_states.shape[0]
        self.static_input[:num_tokens].copy_(hidden_states)
        for step in self.steps:
            step.graph.replay()
            step.eager(step.outputs[0])
        hidden, residual = self.steps[-1].outputs
        # hidden states for the draft model
        aux = [self.steps[i].outputs[1][:num_tokens].clone() for i in self.aux_layers]
        return (hidden + residual)[:num_tokens], aux


def decoder_segment(norm: torch.nn.Module, qkv: torch.nn.Linear, mlp: torch.nn.Module) -> Segment:
    def run(hidden: torch.Tensor, residual: torch.Tensor):
        residual = residual + hidden
        hidden = mlp(norm(residual))
        return qkv(hidden)[:, : hidden.shape[-1]].contiguous(), residual

    return run


def build(model, attention: Callable[[int], Callable[[torch.Tensor], None]], num_tokens: int, hidden_size: int):
    last = len(model.layers) - 1
    runner = BreakableCudaGraph(num_tokens, hidden_size, aux_layers=(1, last // 2, max(last - 3, 0)))
    runner.capture([
        (decoder_segment(layer.norm, layer.qkv, layer.mlp), attention(i)) for i, layer in enumerate(model.layers)
    ])
    return runner
