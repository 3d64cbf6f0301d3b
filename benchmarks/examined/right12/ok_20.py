from collections import defaultdict

import torch


class DeferredScalars:
    """Collects device scalars without stalling the step, and averages them on the host."""

    def __init__(self, depth=64):
        self.values = torch.empty(depth, dtype=torch.float64, pin_memory=True)
        self.entries = [None] * depth
        self.cursor = 0
        self.sums = defaultdict(float)
        self.counts = defaultdict(int)

    def _fold(self, index):
        entry = self.entries[index]
        if entry is None:
            return
        name, event = entry
        event.synchronize()
        self.sums[name] += float(self.values[index])
        self.counts[name] += 1
        self.entries[index] = None

    def push(self, name, scalar):
        index = self.cursor
        self.cursor = (index + 1) % len(self.entries)
        self._fold(index)
        scalar = scalar.detach().reshape(()).double()
        self.values[index].copy_(scalar, non_blocking=True)
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(scalar.device))
        self.entries[index] = (name, event)

    def poll(self):
        for index, entry in enumerate(self.entries):
            if entry is not None and entry[1].query():
                self._fold(index)
        return self._means()

    def drain(self):
        for index in range(len(self.entries)):
            self._fold(index)
        means = self._means()
        self.sums.clear()
        self.counts.clear()
        return means

    def _means(self):
        return {name: self.sums[name] / self.counts[name] for name in self.sums}


def simulate(steps, scalars, device):
    weight = torch.zeros(256, device=device)
    goal = torch.linspace(-1, 1, 256, device=device)
    for step in range(steps):
        noise = torch.randn(256, device=device)
        error = weight - goal + 0.1 * noise
        scalars.push("loss", error.square().mean())
        scalars.push("norm", error.norm())
        weight.sub_(0.1 * error)
        if step % 50 == 49:
            print(step, scalars.poll())
    return weight


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    scalars = DeferredScalars(depth=16)
    simulate(100, scalars, device)
    print(scalars.drain())
    side = torch.cuda.Stream(device)
    with torch.cuda.stream(side):
        simulate(60, scalars, device)
    print(scalars.drain(), scalars.drain())


if __name__ == "__main__":
    main()
