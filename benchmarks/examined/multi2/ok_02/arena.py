import torch


class LatentArena:
    """Fixed rows of GPU memory handed out by number."""

    def __init__(self, rows, width, device="cuda"):
        self.store = torch.zeros(rows, width, device=device, dtype=torch.bfloat16)
        self._idle = list(range(rows - 1, -1, -1))
        self.leases = 0

    def __len__(self):
        return self.store.shape[0]

    @property
    def idle(self):
        return len(self._idle)

    def lease(self):
        if not self._idle:
            return None
        self.leases += 1
        return self._idle.pop()

    def release(self, row):
        self._idle.append(row)

    def view(self, row):
        return self.store[row]

    @property
    def row_bytes(self):
        return self.store.shape[1] * self.store.element_size()

    def __repr__(self):
        return f"LatentArena({len(self)} rows, {self.idle} idle, {self.leases} leases)"
