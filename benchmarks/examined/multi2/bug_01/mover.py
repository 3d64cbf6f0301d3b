from typing import Dict

import torch

from weights import HostWeights


class Seat:
    """GPU home of one block."""

    def __init__(self, shapes, dtype, device):
        self.tensors: Dict[str, torch.Tensor] = {
            k: torch.empty(s, dtype=dtype, device=device) for k, s in shapes.items()
        }
        self.arrived = torch.cuda.Event()
        self.holds = -1


class BlockMover:
    def __init__(self, host: HostWeights, device: torch.device, n_seats: int = 2):
        self.host = host
        self.device = device
        self.lane = torch.cuda.Stream(device=device)
        spec = host.spec
        self.seats = [Seat(spec.shapes(), spec.dtype, device) for _ in range(n_seats)]
        torch.cuda.synchronize(device)

    def seat_of(self, row: int) -> Seat:
        return self.seats[row % len(self.seats)]

    def bring(self, row: int) -> None:
        row = row % len(self.host)
        seat = self.seat_of(row)
        if seat.holds == row:
            return
        with torch.cuda.stream(self.lane):
            for name, src in self.host[row].items():
                seat.tensors[name].copy_(src, non_blocking=True)
            seat.arrived.record(self.lane)
        seat.holds = row

    def take(self, row: int) -> Dict[str, torch.Tensor]:
        seat = self.seat_of(row)
        if seat.holds != row:
            raise RuntimeError(f"block {row} was never asked for")
        torch.cuda.current_stream(self.device).wait_event(seat.arrived)
        return seat.tensors
