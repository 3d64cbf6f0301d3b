"""Step-local arena for a transport solver; statistics of each step are reduced on a low-priority stream."""
import torch


class StepArena:
    def __init__(self, numel, device="cuda"):
        self.block = torch.empty(numel, device=device)
        self.mark = 0

    def empty(self, *shape):
        n = 1
        for s in shape:
            n *= s
        lo, self.mark = self.mark, self.mark + n
        return self.block[lo:self.mark].view(*shape)

    def __enter__(self):
        self.mark = 0
        return self

    def __exit__(self, *exc):
        return False


class Moments:
    def __init__(self, groups):
        self.stream = torch.cuda.Stream(priority=0)
        self.scalar_flux = torch.zeros(groups, device="cuda")
        self.steps = 0

    def add(self, psi):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.scalar_flux.add_(psi.mean(dim=(0, 2)))
        self.steps += 1

    def result(self):
        self.stream.synchronize()
        return self.scalar_flux / self.steps


class Transport:
    def __init__(self, angles=64, groups=32, cells=4096):
        self.shape = (angles, groups, cells)
        self.sigma = torch.rand(groups, cells, device="cuda") + 0.5
        self.source = torch.rand(groups, cells, device="cuda")
        self.psi = torch.zeros(self.shape, device="cuda")
        self.mu = torch.linspace(-1, 1, angles, device="cuda").view(-1, 1, 1)
        self.arena = StepArena(2 * angles * groups * cells)
        self.moments = Moments(groups)
        torch.cuda.synchronize()

    def sweep(self):
        with self.arena as arena:
            upwind = arena.empty(*self.shape)
            torch.mul(self.psi.roll(1, 2), self.mu.abs(), out=upwind)
            fresh = arena.empty(*self.shape)
            torch.add(upwind, self.source, out=fresh)
            fresh.div_(self.mu.abs() + self.sigma)
            self.psi.copy_(fresh)
            self.moments.add(fresh)


def main():
    solver = Transport()
    for _ in range(300):
        solver.sweep()
    print(solver.moments.result().mean().item())


if __name__ == "__main__":
    main()
