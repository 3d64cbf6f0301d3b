from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class ReduceScatterState:
    reduce_scatter_input: torch.Tensor
    event: torch.cuda.Event


class CommContext:
    """State that all parameter groups of one root module share."""

    def __init__(self):
        self.reduce_scatter_states = []
        self.dense_stream = torch.cuda.Stream(priority=-1)
        self.expert_stream = torch.cuda.Stream(priority=-1)


class ParamGroup:
    """Sharded parameters that live on one mesh."""

    def __init__(self, params, group, ctx, stream, index, num_groups):
        self.params = params
        self.group = group
        self.ctx = ctx
        self.is_last = index == num_groups - 1
        self.world = dist.get_world_size(group)
        self.numel = sum(p.numel() for p in params)
        self.padded = -(-self.numel // self.world) * self.world
        self.sharded_grad = torch.zeros(self.padded // self.world, device="cuda")
        self.reduce_scatter_stream = stream

    def _copy_in(self):
        flat = torch.empty(self.padded, device="cuda")
        flat[self.numel :].zero_()
        offset = 0
        for p in self.params:
            flat[offset : offset + p.numel()].copy_(p.grad.reshape(-1))
            offset += p.numel()
            p.grad = None
        return flat

    def post_backward(self):
        current = torch.cuda.current_stream()
        states = self.ctx.reduce_scatter_states
        if self.is_last and states:
            current.wait_event(states[-1].event)
            states.clear()
        reduce_scatter_input = self._copy_in()
        stream = self.reduce_scatter_stream
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            reduce_scatter_input.div_(self.world)
            out = torch.empty_like(self.sharded_grad)
            dist.reduce_scatter_tensor(out, reduce_scatter_input, group=self.group)
            self.sharded_grad.add_(out)
            event = stream.record_event()
        states.append(ReduceScatterState(reduce_scatter_input, event))


class Layer(torch.nn.Module):
    """Attention and router on the dense mesh, experts on their own."""

    def __init__(self, hidden, ffn, dense_group, expert_group, ctx):
        super().__init__()
        self.dense = torch.nn.Linear(hidden, hidden, device="cuda")
        self.expert = torch.nn.Sequential(
            torch.nn.Linear(hidden, ffn, device="cuda"),
            torch.nn.GELU(),
            torch.nn.Linear(ffn, hidden, device="cuda"),
        )
        self.groups = [
            ParamGroup(list(self.expert.parameters()), expert_group, ctx, ctx.expert_stream, 0, 2),
            ParamGroup(list(self.dense.parameters()), dense_group, ctx, ctx.dense_stream, 1, 2),
        ]

    def forward(self, x):
        return x + self.expert(torch.relu(self.dense(x)))


class Trainer:
    def __init__(self, layers, hidden, ffn, dense_group, expert_group):
        self.ctx = CommContext()
        self.layers = [
            Layer(hidden, ffn, dense_group, expert_group, self.ctx) for _ in range(layers)
        ]

    def backward(self, inputs, grad):
        for layer, x in zip(reversed(self.layers), reversed(inputs)):
            x = x.detach().requires_grad_()
            layer(x).backward(grad)
            grad = x.grad
            for group in layer.groups:
                group.post_backward()

    def finalize_backward(self):
        current = torch.cuda.current_stream()
        current.wait_stream(self.ctx.dense_stream)
        current.wait_stream(self.ctx.expert_stream)
        self.ctx.reduce_scatter_states.clear()

    def step(self, x, target):
        inputs = []
        with torch.no_grad():
            for layer in self.layers:
                inputs.append(x)
                x = layer(x)
        self.backward(inputs, (x - target) / x.numel())
        self.finalize_backward()
