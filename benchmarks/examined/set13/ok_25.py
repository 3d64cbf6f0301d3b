from dataclasses import dataclass
from typing import List, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class Capsule:
    data: torch.Tensor
    src: Optional[torch.Tensor] = None
    handle: Optional[dist.Work] = None

    def wait(self):
        if self.handle is not None:
            self.handle.wait()
            self.handle = None
            self.src = None
        return self.data


def all_to_all_async(x, group):
    x = x.contiguous()
    out = torch.empty_like(x)
    handle = dist.all_to_all_single(out, x, group=group, async_op=True)
    return Capsule(out, x, handle)


class Experts(nn.Module):
    def __init__(self, num_local, dim, hidden):
        super().__init__()
        self.wi = nn.Parameter(torch.randn(num_local, dim, hidden) * dim**-0.5)
        self.wo = nn.Parameter(torch.randn(num_local, hidden, dim) * hidden**-0.5)

    def forward(self, x):
        return torch.bmm(torch.nn.functional.silu(torch.bmm(x, self.wi)), self.wo)


class SparseMLP(nn.Module):
    NUM_CHUNK = 4

    def __init__(self, experts, ep_group):
        super().__init__()
        self.experts = experts
        self.ep_group = ep_group
        self.ep_size = dist.get_world_size(ep_group)

    def _to_local(self, x):
        return x.view(self.ep_size, -1, *x.shape[-2:]).transpose(0, 1).flatten(1, 2)

    def _to_global(self, x, like):
        e, _, d = x.shape
        return x.view(e, self.ep_size, -1, d).transpose(0, 1).reshape(like)

    @torch.no_grad()
    def ep_process(self, dispatched):
        chunks = list(dispatched.chunk(self.NUM_CHUNK, dim=1))
        recv: List[Optional[Capsule]] = [None] * len(chunks)
        back: List[Optional[Capsule]] = [None] * len(chunks)
        recv[0] = all_to_all_async(chunks[0], self.ep_group)
        for i in range(len(chunks)):
            if i + 1 < len(chunks):
                recv[i + 1] = all_to_all_async(chunks[i + 1], self.ep_group)
            data = recv[i].wait()
            out = self.experts(self._to_local(data))
            back[i] = all_to_all_async(self._to_global(out, data.shape), self.ep_group)
            recv[i] = None
        return torch.cat([c.wait() for c in back], dim=1)

    def forward(self, x, dispatch_mask, combine_weights):
        expert_in = torch.einsum("td,tec->ecd", x, dispatch_mask.to(x.dtype))
        expert_out = self.ep_process(expert_in)
        return torch.einsum("ecd,tec->td", expert_out, combine_weights)
