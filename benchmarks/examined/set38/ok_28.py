"""Expert weights swapped into device slots; the slot is cleared where it is filled."""
import torch
import torch.nn.functional as F


class HostExperts:
    def __init__(self, n, dim, hidden):
        self.w1 = [torch.randn(hidden - 8 * (i % 3), dim).mul_(0.02).pin_memory() for i in range(n)]
        self.w2 = [torch.randn(dim, hidden - 8 * (i % 3)).mul_(0.02).pin_memory() for i in range(n)]


class Slot:
    def __init__(self, dim, hidden):
        self.w1 = torch.zeros(hidden, dim, device="cuda")
        self.w2 = torch.zeros(dim, hidden, device="cuda")
        self.owner = None
        self.ready = torch.cuda.Event()
        self.idle = torch.cuda.Event()
        self.idle.record()


class SlotCache:
    def __init__(self, host, dim, hidden, slots):
        self.host = host
        self.slots = [Slot(dim, hidden) for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.order = list(range(slots))

    def _evict(self):
        i = self.order.pop(0)
        self.order.append(i)
        return self.slots[i]

    def _fill(self, slot, expert):
        w1, w2 = self.host.w1[expert], self.host.w2[expert]
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.idle)
            slot.w1.zero_()
            slot.w2.zero_()
            slot.w1[:w1.shape[0]].copy_(w1, non_blocking=True)
            slot.w2[:, :w2.shape[1]].copy_(w2, non_blocking=True)
            slot.ready.record()
        slot.owner = expert

    def fetch(self, expert):
        for slot in self.slots:
            if slot.owner == expert:
                return slot
        slot = self._evict()
        self._fill(slot, expert)
        return slot


class SparseLayer:
    def __init__(self, dim=512, hidden=2048, experts=16, slots=4):
        self.host = HostExperts(experts, dim, hidden)
        self.cache = SlotCache(self.host, dim, hidden, slots)
        self.gate = torch.randn(experts, dim, device="cuda") * 0.02

    def run_expert(self, slot, x):
        torch.cuda.current_stream().wait_event(slot.ready)
        y = F.linear(F.silu(F.linear(x, slot.w1)), slot.w2)
        slot.idle.record()
        return y

    @torch.no_grad()
    def __call__(self, x):
        choice = (x @ self.gate.t()).argmax(dim=1)
        out = torch.zeros_like(x)
        for e in choice.unique().tolist():
            rows = (choice == e).nonzero().squeeze(1)
            slot = self.cache.fetch(e)
            out.index_copy_(0, rows, self.run_expert(slot, x[rows]))
        return out


def main():
    torch.manual_seed(0)
    layer = SparseLayer()
    x = torch.randn(256, 512, device="cuda")
    for _ in range(12):
        x = F.normalize(x + layer(x), dim=1)
    print(float(x.abs().mean()))


if __name__ == "__main__":
    main()
