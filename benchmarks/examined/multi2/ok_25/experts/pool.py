import torch

from .lanes import LaneMixin


class SeatPool(LaneMixin):
    """A fused device table of experts with round-robin replacement."""

    def __init__(self, bank, seats, device):
        self.bank = bank
        self.table = torch.zeros((seats,) + bank.shape, dtype=bank.dtype, device=device)
        self.where = {}
        self.who = [None] * seats
        self.hand = 0
        self.in_use = set()

    def _seat(self):
        for _ in range(len(self.who)):
            seat = self.hand
            self.hand = (self.hand + 1) % len(self.who)
            if seat not in self.in_use:
                self.where.pop(self.who[seat], None)
                return seat
        raise RuntimeError("all seats in use")

    def ensure(self, keys):
        """Seats of the keys; misses are copied in over whatever was there."""
        self.in_use = {self.where[k] for k in keys if k in self.where}
        misses = [k for k in keys if k not in self.where]
        if misses:
            with self.aside():
                for k in misses:
                    seat = self._seat()
                    self.who[seat], self.where[k] = k, seat
                    self.in_use.add(seat)
                    self.table[seat].copy_(self.bank[k], non_blocking=True)
        return [self.where[k] for k in keys]
