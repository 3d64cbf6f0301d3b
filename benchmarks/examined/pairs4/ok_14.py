"""Vectorized simulator: observations go out through N host slots."""
import torch


class ObservationTap:
    """Host copies of the state; a full ring is read at once."""

    def __init__(self, shape, slots=8):
        self.slots = [torch.empty(shape, pin_memory=True) for _ in range(slots)]
        self.stream = torch.cuda.Stream()
        self.used = 0
        self.rows = []

    def push(self, state):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.slots[self.used].copy_(state, non_blocking=True)
            state.record_stream(self.stream)
        self.used += 1
        if self.used == len(self.slots):
            self.drain()

    def drain(self):
        self.stream.synchronize()
        for slot in self.slots[: self.used]:
            self.rows.append(slot.mean(dim=0))
        self.used = 0


class Swarm:
    def __init__(self, n):
        self.pos = torch.rand(n, 2, device="cuda")
        self.heading = torch.rand(n, device="cuda") * 6.28

    def step(self, dt=0.02):
        turn = torch.randn_like(self.heading) * 0.1
        self.heading = self.heading + turn
        step = torch.stack([self.heading.cos(), self.heading.sin()], 1)
        self.pos = (self.pos + dt * step).remainder(1.0)
        return torch.cat([self.pos, self.heading[:, None]], 1)


def main():
    swarm = Swarm(1 << 18)
    tap = ObservationTap((1 << 18, 3))
    for _ in range(250):
        tap.push(swarm.step())
    tap.drain()
    print(torch.stack(tap.rows).std(0))


if __name__ == "__main__":
    main()
