from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class FSDPCommContext:
    def __init__(self, device: torch.device):
        self.reduce_scatter_stream = torch.cuda.Stream(device)


class HeadParamGroup:
    """Sharded gradient of the output head, reduced after every loss chunk."""

    def __init__(self, params: List[nn.Parameter], comm_ctx: FSDPCommContext, group: dist.ProcessGroup):
        self.params = params
        self.comm_ctx = comm_ctx
        self.group = group
        self.world = dist.get_world_size(group)
        numel = sum(p.numel() for p in params)
        self.padded = (numel + self.world - 1) // self.world * self.world
        self.sharded_grad = torch.zeros(self.padded // self.world, device=params[0].device)
        self._post_reduce_event: Optional[torch.cuda.Event] = None

    @torch.no_grad()
    def post_backward(self) -> None:
        grads = [p.grad for p in self.params]
        for p in self.params:
            p.grad = None
        rs_stream = self.comm_ctx.reduce_scatter_stream
        rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(rs_stream):
            reduce_input = torch.zeros(self.padded, device=self.sharded_grad.device)
            torch.cat([g.flatten() for g in grads], out=reduce_input[: sum(g.numel() for g in grads)])
            reduce_output = torch.empty_like(self.sharded_grad)
            dist.reduce_scatter_tensor(reduce_output, reduce_input, group=self.group)
            self.sharded_grad.add_(reduce_output, alpha=1.0 / self.world)
            self._post_reduce_event = rs_stream.record_event()

    def finalize_backward(self) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self._post_reduce_event)
        return self.sharded_grad


class ChunkedLoss:
    def __init__(self, head: nn.Linear, param_group: HeadParamGroup, num_chunks: int):
        self.head = head
        self.param_group = param_group
        self.num_chunks = num_chunks

    def backward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden_leaf = hidden.detach().requires_grad_(True)
        total = torch.zeros((), device=hidden.device)
        for h, y in zip(hidden_leaf.chunk(self.num_chunks), labels.chunk(self.num_chunks)):
            loss = nn.functional.cross_entropy(self.head(h), y, reduction="sum") / labels.numel()
            loss.backward()
            total += loss.detach()
            self.param_group.post_backward()
        hidden.backward(hidden_leaf.grad)
        return total


def train(steps: int = 100, tokens: int = 8192, dim: int = 4096, vocab: int = 32000) -> float:
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    device = torch.device("cuda", torch.cuda.current_device())
    body = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)).to(device)
    head = nn.Linear(dim, vocab, bias=False).to(device)
    group = HeadParamGroup(list(head.parameters()), FSDPCommContext(device), dist.group.WORLD)
    loss_fn = ChunkedLoss(head, group, num_chunks=8)
    total = torch.zeros((), device=device)
    for _ in range(steps):
        labels = torch.randint(0, vocab, (tokens,), device=device)
        total += loss_fn.backward(body(torch.randn(tokens, dim, device=device)), labels)
        grad = group.finalize_backward()
        total += 0.0 * grad.norm()
        grad.zero_()
    return total.item()
