"""Data-parallel training with CUDA-aware MPI; gradients are reduced in flat groups."""
import torch
import torch.nn as nn
from mpi4py import MPI


class FlatGroup:
    """A set of parameters with one flat gradient tensor."""

    def __init__(self, params):
        self.params = params
        numel = sum(p.numel() for p in params)
        self.flat = torch.zeros(numel, device="cuda")
        self.request = None

    def views(self):
        offset = 0
        for p in self.params:
            yield p, self.flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


def make_groups(params, limit):
    groups, cur, used = [], [], 0
    for p in reversed(list(params)):
        cur.append(p)
        used += p.numel()
        if used >= limit:
            groups.append(FlatGroup(cur))
            cur, used = [], 0
    if cur:
        groups.append(FlatGroup(cur))
    return groups


class GradientReducer:
    def __init__(self, comm, model, limit=4_000_000):
        self.comm = comm
        self.stream = torch.cuda.Stream()
        self.groups = make_groups(model.parameters(), limit)
        torch.cuda.synchronize()

    def start(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        scale = 1.0 / self.comm.Get_size()
        with torch.cuda.stream(self.stream):
            for g in self.groups:
                for p, view in g.views():
                    torch.mul(p.grad, scale, out=view)
                g.request = self.comm.Iallreduce(MPI.IN_PLACE, g.flat, op=MPI.SUM)

    def finish(self):
        MPI.Request.Waitall([g.request for g in self.groups])
        with torch.cuda.stream(self.stream):
            for g in self.groups:
                for p, view in g.views():
                    p.grad.copy_(view)
        torch.cuda.current_stream().wait_stream(self.stream)


class Trainer:
    def __init__(self, comm, dim=2048, depth=6):
        torch.manual_seed(0)
        mods = [m for _ in range(depth) for m in (nn.Linear(dim, dim), nn.GELU())]
        self.model = nn.Sequential(*mods, nn.Linear(dim, 1)).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.reducer = GradientReducer(comm, self.model)
        self.dim = dim
        self.gen = torch.Generator(device="cuda").manual_seed(comm.Get_rank() + 1)

    def step(self):
        x = torch.randn(256, self.dim, device="cuda", generator=self.gen)
        target = x[:, :1].sin()
        loss = nn.functional.mse_loss(self.model(x), target)
        self.opt.zero_grad(set_to_none=False)
        loss.backward()
        self.reducer.start()
        value = loss.detach()
        self.reducer.finish()
        self.opt.step()
        return value


def main():
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.Get_rank() % torch.cuda.device_count())
    trainer = Trainer(comm)
    losses = [trainer.step() for _ in range(50)]
    mine = float(torch.stack(losses)[-10:].mean())
    spread = comm.allgather(mine)
    if comm.Get_rank() == 0:
        print(spread)


if __name__ == "__main__":
    main()
