from dataclasses import dataclass

import torch


@dataclass
class Ticket:
    rows: int
    out: torch.Tensor
    done: torch.cuda.Event

    def result(self):
        self.done.synchronize()
        return self.out[:self.rows].float().cpu()


class Dispatcher:
    """Keeps one lane a batch size, so that small requests need not queue up."""

    def __init__(self, registry):
        self.registry = registry
        self.lanes = {size: torch.cuda.Stream() for size in registry.sizes}

    def submit(self, rows):
        count = len(rows)
        size = self.registry.size_for(count)
        lane = self.lanes[size]
        with torch.cuda.stream(lane), torch.no_grad():
            batch = torch.zeros(size, rows.shape[1], dtype=torch.float16, device="cuda")
            batch[:count] = rows.to("cuda", torch.float16)
            out = self.registry[size].run(batch)
            done = lane.record_event()
        return Ticket(count, out, done)

    def plan(self, counts):
        """Which batch size each of the requests would go to."""
        return {n: self.registry.size_for(n) for n in counts}

    @property
    def waste(self):
        """Worst share of padding rows for each size."""
        sizes = self.registry.sizes
        lower = [0] + sizes[:-1]
        return {s: (s - low - 1) / s for s, low in zip(sizes, lower)}
