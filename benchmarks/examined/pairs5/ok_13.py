"""Captured step with host-fed pinned parameters; each replay is followed by an event guarding the pinned slot."""
from collections import deque
import torch


class CapturedIntegrator:
    """One graph per pinned parameter slot: upload of the coefficients, update, norm to host."""

    def __init__(self, n, depth=2):
        self.stream = torch.cuda.Stream()
        self.state = torch.randn(n, device="cuda")
        self.coef = torch.zeros(4, device="cuda")
        torch.cuda.synchronize()
        self.slots = deque()
        for _ in range(depth):
            host = torch.zeros(4, pin_memory=True)
            norm = torch.zeros(1, pin_memory=True)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                self.coef.copy_(host, non_blocking=True)
                k = self.coef[0] + self.coef[1] * torch.sin(self.coef[2] * self.state)
                self.state.add_(k * self.coef[3])
                norm.copy_(self.state.norm().reshape(1), non_blocking=True)
            self.slots.append((host, norm, graph, torch.cuda.Event()))
        self.inflight = deque()

    def _retire(self):
        host, norm, graph, event = self.inflight.popleft()
        event.synchronize()
        value = norm.item()
        self.slots.append((host, norm, graph, event))
        return value

    def step(self, coefficients):
        value = self._retire() if not self.slots else None
        host, norm, graph, event = self.slots.popleft()
        host.copy_(torch.tensor(coefficients))
        with torch.cuda.stream(self.stream):
            graph.replay()
            event.record()
        self.inflight.append((host, norm, graph, event))
        return value

    def drain(self):
        while self.inflight:
            yield self._retire()


def main():
    integ = CapturedIntegrator(1 << 20)
    norms = []
    for n in range(500):
        value = integ.step((0.0, -0.5, 1.0 + 0.001 * n, 1e-3))
        if value is not None:
            norms.append(value)
    norms.extend(integ.drain())
    print(len(norms), norms[-1])


if __name__ == "__main__":
    main()
