"""LRU cache of expert weights on the device, filled on demand from pinned memory."""
from collections import OrderedDict

import torch


class ExpertCache:
    def __init__(self, host: list[torch.Tensor], capacity: int):
        self.host = [h.pin_memory() for h in host]
        self.capacity = capacity
        self.lru: "OrderedDict[int, tuple[torch.Tensor, torch.cuda.Event]]" = OrderedDict()
        self.loader = torch.cuda.Stream()
        self.hits = self.misses = 0

    def _place(self, taken: int) -> torch.Tensor:
        if len(self.lru) + taken < self.capacity:
            return torch.empty_like(self.host[0], device="cuda")
        _, (tensor, _) = self.lru.popitem(last=False)
        return tensor

    def request(self, ids: list[int]) -> None:
        missing = [e for e in dict.fromkeys(ids) if e not in self.lru]
        for e in ids:
            if e in self.lru:
                self.lru.move_to_end(e)
        if not missing:
            return
        targets = [(e, self._place(n)) for n, e in enumerate(missing)]
        self.loader.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.loader):
            for e, t in targets:
                t.copy_(self.host[e], non_blocking=True)
                self.lru[e] = (t, self.loader.record_event())
        self.misses += len(missing)

    def __getitem__(self, e: int) -> torch.Tensor:
        tensor, event = self.lru[e]
        torch.cuda.current_stream().wait_event(event)
        self.hits += 1
        return tensor


def main():
    torch.manual_seed(0)
    experts = [torch.randn(512, 512) / 22 for _ in range(32)]
    cache = ExpertCache(experts, capacity=8)
    router = torch.randn(32, 512, device="cuda")
    x = torch.randn(512, device="cuda")
    for step in range(60):
        ids = (router @ x).topk(4).indices.tolist()
        cache.request(ids)
        y = torch.zeros_like(x)
        for e in ids:
            y += torch.relu(cache[e] @ x)
        x = torch.nn.functional.normalize(x + y + 0.1 * torch.randn_like(x), dim=0)
    print(cache.hits, cache.misses, x.abs().max().item())


if __name__ == "__main__":
    main()
