from collections import OrderedDict

import torch


class AdapterSlots:
    """A few device slots for many low-rank adapters kept in pinned memory."""

    def __init__(self, host_a, host_b, slots):
        self.host_a, self.host_b = host_a, host_b
        self.a = torch.zeros(slots, *host_a[0].shape, device="cuda")
        self.b = torch.zeros(slots, *host_b[0].shape, device="cuda")
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.where = OrderedDict()
        self.free = list(range(slots))
        self.loaded = {}
        self.used = {}

    def ensure(self, ids):
        for i in ids:
            if i in self.where:
                self.where.move_to_end(i)
                continue
            slot = self.free.pop() if self.free else self._evict(ids)
            last = self.used.pop(slot, None)
            if last is not None:
                self.stream.wait_event(last)
            with torch.cuda.stream(self.stream):
                self.a[slot].copy_(self.host_a[i], non_blocking=True)
                self.b[slot].copy_(self.host_b[i], non_blocking=True)
                self.loaded[slot] = self.stream.record_event()
            self.where[i] = slot

    def _evict(self, pinned):
        victim = next(i for i in self.where if i not in pinned)
        return self.where.pop(victim)

    def apply(self, x, ids):
        slots = [self.where[i] for i in ids]
        current = torch.cuda.current_stream()
        for slot in set(slots):
            current.wait_event(self.loaded[slot])
        pick = torch.tensor(slots, device=x.device)
        delta = torch.bmm(torch.bmm(x.unsqueeze(1), self.a[pick]), self.b[pick]).squeeze(1)
        done = current.record_event()
        for slot in slots:
            self.used[slot] = done
        return delta


@torch.inference_mode()
def main(adapters=64, slots=12, dim=1024, rank=16, batch=8):
    host_a = [torch.randn(dim, rank).pin_memory() for _ in range(adapters)]
    host_b = [torch.randn(rank, dim).pin_memory() for _ in range(adapters)]
    bank = AdapterSlots(host_a, host_b, slots)
    base = torch.nn.Linear(dim, dim).cuda()
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(batch, dim, device="cuda")
    for step in range(200):
        ids = torch.randint(0, adapters, (batch,), generator=gen).tolist()
        bank.ensure(ids)
        x = torch.nn.functional.normalize(base(x) + 0.01 * bank.apply(x, ids), dim=-1)
    print(x.sum().item())


if __name__ == "__main__":
    main()
