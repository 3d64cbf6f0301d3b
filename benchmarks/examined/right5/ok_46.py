from typing import Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist
from torch import nn


class BucketedBroadcast:
    """Sends trainer weights to rollout ranks through two flat buckets."""

    def __init__(self, numel: int, src: int = 0):
        self.src = src
        self.buckets = [torch.empty(numel, device="cuda") for _ in range(2)]
        self.works: List = [None, None]
        self.layout: List[List[Tuple[nn.Parameter, int]]] = [[], []]

    def _plan(self, params: Dict[str, nn.Parameter]) -> Iterator[List[nn.Parameter]]:
        group, used = [], 0
        for p in params.values():
            if used + p.numel() > self.buckets[0].numel() and group:
                yield group
                group, used = [], 0
            group.append(p)
            used += p.numel()
        if group:
            yield group

    def _retire(self, which: int) -> None:
        if self.works[which] is None:
            return
        self.works[which].wait()
        if dist.get_rank() != self.src:
            for p, offset in self.layout[which]:
                p.copy_(self.buckets[which][offset:offset + p.numel()].view_as(p))
        self.works[which] = None

    @torch.no_grad()
    def sync(self, params: Dict[str, nn.Parameter]) -> None:
        for i, group in enumerate(self._plan(params)):
            which = i % 2
            self._retire(which)
            flat, offset, layout = self.buckets[which], 0, []
            for p in group:
                if dist.get_rank() == self.src:
                    flat[offset:offset + p.numel()].copy_(p.reshape(-1))
                layout.append((p, offset))
                offset += p.numel()
            self.layout[which] = layout
            self.works[which] = dist.broadcast(flat[:offset], self.src, async_op=True)
        for which in (0, 1):
            self._retire(which)


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(9)]).cuda()
    channel = BucketedBroadcast(3 << 20)
    for it in range(4):
        if rank == 0:
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(0.01)
        channel.sync(dict(net.named_parameters()))
        with torch.no_grad():
            print(it, rank, net(torch.ones(4, 1024, device="cuda")).sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
