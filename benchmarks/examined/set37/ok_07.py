"""A CuPy simulation feeds fields to a torch surrogate without host copies."""
from typing import Iterator

import cupy as cp
import torch
from torch import nn


class HeatSimulation:
    def __init__(self, size: int, device: int = 0):
        self.device = device
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            self.torch_view = torch.cuda.ExternalStream(self.stream.ptr, device=torch.device("cuda", device))
            with self.stream:
                self.state = cp.random.standard_normal((size, size), dtype=cp.float32)
                self.step_index = 0

    def advance(self, inner: int = 8) -> cp.ndarray:
        """Returns a fresh field, valid in the order of self.stream."""
        u = self.state
        for _ in range(inner):
            lap = (
                cp.roll(u, 1, 0) + cp.roll(u, -1, 0) + cp.roll(u, 1, 1) + cp.roll(u, -1, 1) - 4.0 * u
            )
            u = u + cp.float32(0.2) * lap
        self.state = u
        self.step_index += 1
        return cp.tanh(u)


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 1, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x[None, None])[0, 0]


class Coupler:
    def __init__(self, simulation: HeatSimulation, surrogate: Surrogate):
        self.simulation = simulation
        self.surrogate = surrogate
        self.consumed = torch.cuda.Event()

    def fields(self, steps: int) -> Iterator[torch.Tensor]:
        simulation = self.simulation
        for _ in range(steps):
            with cp.cuda.Device(simulation.device), simulation.stream:
                field = simulation.advance()
                shared = torch.from_dlpack(field)
            with torch.no_grad():
                error = (self.surrogate(shared) - shared).square().mean()
            self.consumed.record(torch.cuda.current_stream())
            simulation.torch_view.wait_event(self.consumed)
            del shared, field
            yield error


def main() -> None:
    torch.cuda.set_device(0)
    coupler = Coupler(HeatSimulation(2048), Surrogate().cuda())
    errors = list(coupler.fields(32))
    print(torch.stack(errors).cpu())


if __name__ == "__main__":
    main()
