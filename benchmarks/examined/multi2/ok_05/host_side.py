import torch


class HostSlots:
    """Alternating page-locked inputs, and the results they led to."""

    def __init__(self, cfg):
        self.slots = [torch.empty(cfg.shape, pin_memory=True) for _ in range(cfg.host_slots)]
        self.results = [torch.empty(cfg.batch, pin_memory=True) for _ in range(cfg.host_slots)]
        self.marks = [None] * cfg.host_slots

    def fill(self, turn, seed):
        i = turn % len(self.slots)
        harvested = self.harvest(i)
        gen = torch.Generator().manual_seed(seed)
        self.slots[i].normal_(generator=gen)
        return self.slots[i], harvested

    def deposit(self, turn, out):
        i = turn % len(self.slots)
        self.results[i].copy_(out, non_blocking=True)
        self.marks[i] = torch.cuda.current_stream().record_event()

    def harvest(self, i):
        mark, self.marks[i] = self.marks[i], None
        if mark is None:
            return None
        mark.synchronize()
        return self.results[i].mean().item()

    def busy(self):
        return sum(1 for m in self.marks if m is not None and not m.query())

    def __len__(self):
        return len(self.slots)
