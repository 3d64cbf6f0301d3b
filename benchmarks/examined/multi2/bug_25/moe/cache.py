from collections import OrderedDict

import torch


class Seat:
    """Device room for the two matrices of one expert."""

    def __init__(self, shape, device):
        self.data = torch.zeros(shape, dtype=torch.float16, device=device)
        self.filled = torch.cuda.Event()
        self.vacated = torch.cuda.Event()
        self.owner = None
        self.pins = 0

    @property
    def up(self):
        return self.data[0]

    @property
    def down(self):
        return self.data[1]


class ExpertCache:
    def __init__(self, cfg):
        self.cfg = cfg
        self._seats = [Seat(cfg.expert_shape, cfg.device) for _ in range(cfg.seats)]
        self._table = OrderedDict()
        torch.cuda.synchronize()

    def resident(self, key):
        found = key in self._table
        if found:
            self._table.move_to_end(key)
        return found

    def claim(self, key):
        """Seat for a key that is not resident: a fresh one or the oldest."""
        for seat in self._seats:
            if seat.owner is None:
                break
        else:
            for old, seat in self._table.items():
                if seat.pins == 0:
                    del self._table[old]
                    break
            else:
                return None
        seat.owner = key
        self._table[key] = seat
        return seat

    def checkout(self, key):
        seat = self._table[key]
        self._table.move_to_end(key)
        seat.pins += 1
        torch.cuda.current_stream().wait_event(seat.filled)
        return seat

    def checkin(self, seat):
        seat.pins -= 1
        seat.vacated.record()
