"""Molecular dynamics: the neighbour list is rebuilt in the background and swapped in when it is complete."""
import torch


class NeighbourList:
    def __init__(self, n, k):
        self.idx = torch.zeros(n, k, dtype=torch.long, device="cuda")
        self.frozen = torch.zeros(n, 3, device="cuda")
        self.built = torch.cuda.Event()
        self.used = torch.cuda.Event()


class NeighbourManager:
    def __init__(self, n, k):
        self.k = k
        self.active, self.spare = NeighbourList(n, k), NeighbourList(n, k)
        self.stream = torch.cuda.Stream()
        self.building = False

    def _search(self, lst):
        for lo in range(0, lst.frozen.shape[0], 2048):
            d = torch.cdist(lst.frozen[lo:lo + 2048], lst.frozen)
            lst.idx[lo:lo + 2048] = d.topk(self.k + 1, largest=False).indices[:, 1:]

    def begin(self, pos):
        main = torch.cuda.current_stream()
        lst = self.spare
        main.wait_event(lst.used)
        lst.frozen.copy_(pos)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            self._search(lst)
            lst.built.record()
        self.building = True

    def current(self):
        main = torch.cuda.current_stream()
        if self.building and self.spare.built.query():
            self.active.used.record(main)
            self.active, self.spare = self.spare, self.active
            main.wait_event(self.active.built)
            self.building = False
        return self.active.idx


class MDRun:
    def __init__(self, n=8192, k=32, box=20.0):
        self.pos = torch.rand(n, 3, device="cuda") * box
        self.vel = torch.zeros_like(self.pos)
        self.manager = NeighbourManager(n, k)
        self.manager.begin(self.pos)
        torch.cuda.synchronize()

    def step(self, dt=1e-3):
        idx = self.manager.current()
        delta = self.pos[idx] - self.pos[:, None]
        r2 = delta.square().sum(-1, keepdim=True) + 0.1
        force = (delta * (1 / r2 ** 2 - 2 / r2 ** 4)).sum(1)
        self.vel.add_(force, alpha=dt)
        self.pos.add_(self.vel, alpha=dt)


def main():
    run = MDRun()
    for n in range(2000):
        run.step()
        if n % 50 == 49 and not run.manager.building:
            run.manager.begin(run.pos)
    print(run.vel.square().sum().item())


if __name__ == "__main__":
    main()
