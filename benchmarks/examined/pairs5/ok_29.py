"""Bump arena for per-step temporaries; an epoch is reset only after every stream that used it has passed."""
import torch


class Epoch:
    def __init__(self, numel):
        self.block = torch.empty(numel, device="cuda")
        self.offset = 0
        self.users = {}

    def alloc(self, *shape):
        n = 1
        for s in shape:
            n *= s
        n_aligned = -(-n // 128) * 128
        if self.offset + n_aligned > self.block.numel():
            raise MemoryError("arena exhausted")
        view = self.block[self.offset:self.offset + n].view(*shape)
        self.offset += n_aligned
        return view

    def used_on(self, stream):
        self.users[stream] = stream.record_event()

    def reset(self, stream):
        for event in self.users.values():
            stream.wait_event(event)
        self.users.clear()
        self.offset = 0


class EpochArena:
    def __init__(self, numel, epochs=2):
        self.epochs = [Epoch(numel) for _ in range(epochs)]
        self.n = 0

    def begin(self):
        epoch = self.epochs[self.n % len(self.epochs)]
        self.n += 1
        epoch.reset(torch.cuda.current_stream())
        return epoch


class Diagnostics:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.energy = torch.zeros((), device="cuda")

    def consume(self, epoch, spectrum):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.energy.add_(spectrum.square().sum())
        epoch.used_on(self.stream)


class Burgers:
    def __init__(self, n):
        self.u = torch.sin(torch.linspace(0, 6.2831853, n, device="cuda"))
        self.arena = EpochArena(4 * n)
        self.diag = Diagnostics()

    def step(self, dt=1e-4):
        epoch = self.arena.begin()
        flux = epoch.alloc(self.u.numel())
        torch.square(self.u, out=flux).mul_(0.5)
        grad = epoch.alloc(self.u.numel())
        torch.sub(flux, torch.roll(flux, 1), out=grad)
        self.u.sub_(grad, alpha=dt * self.u.numel())
        self.diag.consume(epoch, grad)


def main():
    sim = Burgers(1 << 20)
    torch.cuda.synchronize()
    for _ in range(1000):
        sim.step(1e-8)
    torch.cuda.synchronize()
    print(sim.diag.energy.item(), sim.u.max().item())


if __name__ == "__main__":
    main()
