from typing import NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import nn


class ReduceScatterState(NamedTuple):
    unsharded_grad: torch.Tensor
    event: torch.cuda.Event


class ShardedGradients:
    """Reduce-scatters each gradient on its own stream as soon as it is accumulated."""

    def __init__(self, module: nn.Module):
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.stream = torch.cuda.Stream(priority=-1)
        self.shards = {p: torch.zeros(p.numel() // self.world, device=p.device) for p in module.parameters()}
        self.state: Optional[ReduceScatterState] = None
        self.final_event: Optional[torch.cuda.Event] = None
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self._post_backward)

    @torch.no_grad()
    def _post_backward(self, p):
        compute = torch.cuda.current_stream()
        if self.state is not None:
            compute.wait_event(self.state.event)
            self.state = None
        grad, p.grad = p.grad, None
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            out = torch.empty_like(self.shards[p])
            dist.reduce_scatter_tensor(out, grad.reshape(-1), op=dist.ReduceOp.AVG)
            self.shards[p].add_(out)
            event = self.stream.record_event()
        self.state = ReduceScatterState(grad, event)
        self.final_event = event

    def wait(self):
        if self.final_event is not None:
            torch.cuda.current_stream().wait_event(self.final_event)
        self.state = self.final_event = None

    @torch.no_grad()
    def apply(self, lr: float):
        self.wait()
        for p, shard in self.shards.items():
            flat = p.view(-1)
            mine = flat[self.rank * shard.numel():(self.rank + 1) * shard.numel()]
            mine.add_(shard, alpha=-lr)
            dist.all_gather_into_tensor(flat, mine.clone())
            shard.zero_()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(6)]).cuda()
    grads = ShardedGradients(net)
    for _ in range(20):
        for _ in range(2):
            net(torch.randn(32, 1024, device="cuda")).square().mean().backward()
        grads.apply(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
