"""Paging of adapter weights through a single transfer stream."""
from typing import Dict, List

import torch
import torch.nn as nn


class Pager:
    """All traffic to and from host memory is queued on one stream."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pages: Dict[str, List[torch.Tensor]] = {}

    def _host_copies(self, key: str, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        if key not in self.pages:
            self.pages[key] = [torch.empty_like(t, device="cpu").pin_memory() for t in tensors]
        return self.pages[key]

    def page_out(self, key: str, module: nn.Module):
        tensors = [p.data for p in module.parameters()]
        pages = self._host_copies(key, tensors)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for page, t in zip(pages, tensors):
                page.copy_(t, non_blocking=True)
        for p, t in zip(module.parameters(), tensors):
            t.record_stream(self.stream)
            p.data = torch.empty(0, dtype=t.dtype, device=t.device)

    def page_in(self, key: str, module: nn.Module):
        pages = self.pages[key]
        fresh = [torch.empty(page.shape, dtype=page.dtype, device="cuda") for page in pages]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for dst, page in zip(fresh, pages):
                dst.copy_(page, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        for p, dst in zip(module.parameters(), fresh):
            p.data = dst


class Adapter(nn.Module):
    def __init__(self, dim: int, rank: int):
        super().__init__()
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class AdapterServer:
    def __init__(self, names: List[str], dim: int = 4096, rank: int = 512):
        self.dim = dim
        self.base = nn.Linear(dim, dim).cuda()
        self.adapters = {n: Adapter(dim, rank).cuda() for n in names}
        self.pager = Pager()
        for n, a in self.adapters.items():
            self.pager.page_out(n, a)

    @torch.no_grad()
    def serve(self, name: str, x: torch.Tensor, nudge: float) -> torch.Tensor:
        adapter = self.adapters[name]
        self.pager.page_in(name, adapter)
        y = adapter(self.base(x))
        for p in adapter.parameters():
            p.mul_(1.0 - nudge)
        self.pager.page_out(name, adapter)
        return y.mean()


def main(requests: int = 40):
    names = ["legal", "medical", "code", "chat"]
    server = AdapterServer(names)
    outputs = []
    for i in range(requests):
        x = torch.randn(16, server.dim, device="cuda")
        outputs.append(server.serve(names[i % 3], x, 1e-3))
        outputs.append(server.serve(names[i % 3], x, 1e-3))
    print(torch.stack(outputs).tolist()[-4:])


if __name__ == "__main__":
    main()
