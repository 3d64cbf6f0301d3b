from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class MutationEpilogue:
    """A functionalized input mutation that is still to be written back."""

    target: torch.Tensor
    value: torch.Tensor
    stream: torch.cuda.Stream


class CompiledRegion:
    """Runs a functionalized graph and its mutation epilogues."""

    def __init__(self, graph_fn: Callable, side_stream):
        self.graph_fn = graph_fn
        self.side_stream = side_stream
        self.calls = 0

    def _run_epilogues(self, epilogues):
        for e in epilogues:
            with torch.cuda.stream(e.stream):
                e.target.copy_(e.value)

    def __call__(self, *args):
        outputs, epilogues = self.graph_fn(self.side_stream, *args)
        self._run_epilogues(epilogues)
        self.calls += 1
        return outputs


def functional_update(side, state, momentum, small):
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        new_momentum = torch.lerp(momentum, state, 0.1)
        new_state = state - 0.01 * new_momentum
    current.wait_stream(side)
    epilogues = [
        MutationEpilogue(momentum, new_momentum, side),
        MutationEpilogue(state, new_state, side),
    ]
    return small + 1, epilogues


class Simulation:
    def __init__(self, n=1 << 26):
        self.state = torch.randn(n, device="cuda")
        self.momentum = torch.zeros(n, device="cuda")
        self.ticks = torch.zeros(1, device="cuda")
        self.region = CompiledRegion(functional_update, torch.cuda.Stream())

    def step(self):
        self.ticks = self.region(self.state, self.momentum, self.ticks)

    def energy(self):
        return torch.dot(self.state, self.state)


def main(steps=100):
    sim = Simulation()
    energies = torch.zeros(steps, device="cuda")
    with torch.no_grad():
        for i in range(steps):
            sim.step()
            energies[i] = sim.energy()
    return energies.cpu(), sim.ticks.item()
