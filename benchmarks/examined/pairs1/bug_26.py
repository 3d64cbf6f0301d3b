"""Expert swapping for a router that is evaluated one layer ahead."""
import collections

import torch


class Resident:
    def __init__(self, shape):
        self.up = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
        self.arrived = torch.cuda.Event()


class ExpertSwapper:
    def __init__(self, store, capacity):
        self.store = store
        self.lru = collections.OrderedDict()
        self.idle = collections.deque(Resident(store[0].shape) for _ in range(capacity))
        self.transfer = torch.cuda.Stream()

    def _take_slot(self):
        if self.idle:
            return self.idle.popleft()
        return self.lru.popitem(last=False)[1]

    def prefetch(self, ids):
        for e in ids:
            if e in self.lru:
                self.lru.move_to_end(e)
                continue
            slot = self._take_slot()
            with torch.cuda.stream(self.transfer):
                slot.up.copy_(self.store[e], non_blocking=True)
                slot.arrived.record()
            self.lru[e] = slot

    def compute(self, e, x):
        slot = self.lru[e]
        slot.arrived.wait()
        return torch.nn.functional.silu(x @ slot.up)


def main(dim=2048, experts=48, steps=200):
    store = [(torch.randn(dim, dim) / 45).to(torch.bfloat16).pin_memory() for _ in range(experts)]
    swapper = ExpertSwapper(store, 4)
    x = torch.randn(512, dim, device="cuda", dtype=torch.bfloat16)
    swapper.prefetch([0, 1])
    for step in range(steps):
        now = [(2 * step) % experts, (2 * step + 1) % experts]
        ahead = [(2 * step + 2) % experts, (2 * step + 3) % experts]
        y = sum(swapper.compute(e, x) for e in now)
        swapper.prefetch(ahead)
        x = torch.tanh(x + y)
    print(x.float().mean().item())


if __name__ == "__main__":
    main()
