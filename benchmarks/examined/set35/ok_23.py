"""Gradient exchange on one communication stream; norm clipping after a single join."""
import os
from typing import Iterable, List

import torch
import torch.distributed as dist
import torch.nn as nn


class StreamExchange:
    def __init__(self, params: Iterable[nn.Parameter]):
        self.params: List[nn.Parameter] = list(params)
        self.stream = torch.cuda.Stream()
        self.last = torch.cuda.Event()
        self.scale = 1.0 / dist.get_world_size()
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._exchange)

    def _exchange(self, p: nn.Parameter) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            p.grad.mul_(self.scale)
            dist.all_reduce(p.grad, async_op=True).wait()
            self.last.record()
        p.grad.record_stream(self.stream)

    def join(self) -> None:
        torch.cuda.current_stream().wait_event(self.last)


class Fitter:
    def __init__(self, model: nn.Module, max_norm: float = 1.0):
        self.model = model
        self.exchange = StreamExchange(model.parameters())
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.max_norm = max_norm

    def train_batch(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.exchange.join()
        nn.utils.clip_grad_norm_(self.exchange.params, self.max_norm, foreach=True)
        self.optimizer.step()
        return loss.detach()


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 100)).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    fitter = Fitter(model)
    total = torch.zeros((), device="cuda")
    for _ in range(200):
        x = torch.randn(256, 1024, device="cuda")
        y = torch.randint(0, 100, (256,), device="cuda")
        total += fitter.train_batch(x, y)
    print(rank, (total / 200).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
