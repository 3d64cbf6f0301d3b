import math

import torch


class Schedule:
    """Cosine schedule; one row of coefficients a step, kept in pinned memory."""

    def __init__(self, steps):
        self.steps = steps
        rows = []
        for k in range(steps, 0, -1):
            now = math.cos(k / steps * math.pi / 2) ** 2 + 1e-4
            nxt = math.cos((k - 1) / steps * math.pi / 2) ** 2 + 1e-4
            rows.append([k / steps, now, nxt])
        self.table = torch.tensor(rows, dtype=torch.float32).pin_memory()

    def __iter__(self):
        return iter(self.table.unbind(0))

    def __len__(self):
        return self.steps

    def thinned(self, every):
        """A schedule with fewer, larger steps."""
        if every < 1:
            raise ValueError("every must be at least 1")
        return Schedule(max(1, self.steps // every))

    def __repr__(self):
        return f"Schedule({self.steps} steps)"
