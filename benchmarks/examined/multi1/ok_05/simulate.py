import torch

from fetcher import Fetcher


class Oscillators:
    def __init__(self, n, dt=0.01):
        self.pos = torch.randn(n, device="cuda")
        self.vel = torch.zeros(n, device="cuda")
        self.dt = dt

    def step(self):
        self.vel.add_(torch.sin(self.pos), alpha=-self.dt)
        self.pos.add_(self.vel, alpha=self.dt)


def report(i, pos, vel):
    energy = 0.5 * (vel ** 2).mean() + (1.0 - abs(pos).mean())
    print(f"{i:5d} x={pos.mean():+.4f} e={energy:.5f}")


def main(steps=2000, every=100):
    sim = Oscillators(1 << 20)
    out = Fetcher()
    for i in range(steps):
        sim.step()
        if i % every == 0:
            if out.pending():
                report(i - every, out.fetch("pos"), out.fetch("vel"))
            out.request("pos", sim.pos)
            out.request("vel", sim.vel)
    report(i, out.fetch("pos"), out.fetch("vel"))


if __name__ == "__main__":
    main()
