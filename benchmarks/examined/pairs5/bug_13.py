"""Replayed simulation step whose schedule is read from a pinned table refilled by the host."""
import math
import torch


class Schedule:
    def __init__(self, period):
        self.period = period
        self.host = torch.zeros(3, pin_memory=True)

    def fill(self, n):
        phase = 2 * math.pi * n / self.period
        self.host[0] = math.cos(phase)
        self.host[1] = math.sin(phase)
        self.host[2] = 1e-3 * (1 + 0.5 * math.sin(3 * phase))


class DrivenLattice:
    def __init__(self, shape, period=400):
        self.schedule = Schedule(period)
        self.drive = torch.zeros(3, device="cuda")
        self.spin = torch.randn(*shape, device="cuda")
        self.stream = torch.cuda.Stream()
        self.steps_done = 0
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.drive.copy_(self.schedule.host, non_blocking=True)
            lap = sum(torch.roll(self.spin, s, d) for s in (1, -1) for d in (0, 1)) - 4 * self.spin
            force = lap - self.spin ** 3 + self.drive[0] * self.spin + self.drive[1]
            self.spin.add_(force * self.drive[2])

    def step(self, n):
        self.schedule.fill(n)
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def magnetization(self):
        with torch.cuda.stream(self.stream):
            return self.spin.mean().item()


def main():
    lattice = DrivenLattice((2048, 2048))
    trace = []
    for n in range(4000):
        lattice.step(n)
        if n % 100 == 0:
            trace.append(lattice.magnetization())
    print(max(trace), min(trace))


if __name__ == "__main__":
    main()
