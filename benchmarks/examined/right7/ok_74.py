"""Coalesced asynchronous parameter broadcast after sharded updates."""
import torch
import torch.distributed as dist
from torch import nn


class ShardedOptimizer:
    def __init__(self, model: nn.Module, lr: float):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.parts = [[] for _ in range(self.world)]
        for i, p in enumerate(model.parameters()):
            self.parts[i % self.world].append(p)
        self.inner = torch.optim.SGD(self.parts[self.rank], lr=lr) if self.parts[self.rank] else None
        self.inflight = []
        model.register_forward_pre_hook(self._settle)

    def _settle(self, module=None, args=None):
        for work, payload in self.inflight:
            work.wait()
            self._unpack(*payload)
        self.inflight.clear()

    @staticmethod
    @torch.no_grad()
    def _unpack(params, flat):
        off = 0
        for p in params:
            p.copy_(flat[off:off + p.numel()].view_as(p))
            off += p.numel()

    @torch.no_grad()
    def step(self):
        for params in self.parts:
            for p in params:
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        if self.inner is not None:
            self.inner.step()
        for owner, params in enumerate(self.parts):
            if params:
                flat = torch.cat([p.detach().flatten() for p in params])
                work = dist.broadcast(flat, owner, async_op=True)
                self.inflight.append((work, (params, flat)))

    def finish(self):
        self._settle()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
    opt = ShardedOptimizer(model, 0.1)
    for _ in range(10):
        loss = model(torch.randn(16, 256, device="cuda")).square().mean()
        model.zero_grad()
        loss.backward()
        opt.step()
    opt.finish()
    print(model[2].bias.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
