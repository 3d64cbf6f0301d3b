"""Stage-3 like gradient sharding: every kernel of the model stays on the default stream."""
import torch
import torch.nn as nn


class ShardSpec:
    def __init__(self, name, param, rank_count):
        self.name, self.param = name, param
        n = param.numel()
        self.padded = (n + rank_count - 1) // rank_count * rank_count
        self.per_rank = self.padded // rank_count
        self.store = torch.zeros(self.padded, device=param.device)

    def shard(self, rank):
        return self.store[rank * self.per_rank:(rank + 1) * self.per_rank]


class GradPartitioner:
    def __init__(self, module, rank_count=4, overlap_comm=True):
        self.specs = {p: ShardSpec(n, p, rank_count) for n, p in module.named_parameters()}
        self.rank_count = rank_count
        self.overlap_comm = overlap_comm
        self.side = torch.cuda.Stream() if overlap_comm else torch.cuda.default_stream()
        for p in self.specs:
            p.register_post_accumulate_grad_hook(self._reduce_and_partition)

    def _reduce_and_partition(self, p):
        spec = self.specs[p]
        grad = p.grad
        if self.overlap_comm:
            self.side.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(self.side):
            spec.store[:grad.numel()].add_(grad.view(-1), alpha=1.0 / self.rank_count)
        grad.record_stream(self.side)
        p.grad = None

    def sync(self):
        torch.cuda.default_stream().wait_stream(self.side)

    def norm(self):
        per_rank = []
        for r in range(self.rank_count):
            per_rank.append(sum(s.shard(r).square().sum() for s in self.specs.values()))
        return torch.stack(per_rank).sum().sqrt()

    @torch.no_grad()
    def apply(self, lr, clip=1.0):
        coef = torch.clamp(clip / (self.norm() + 1e-6), max=1.0)
        for p, spec in self.specs.items():
            p.sub_(lr * coef * spec.store[:p.numel()].view_as(p))
            spec.store.zero_()


class Engine:
    def __init__(self, module, accumulate=2):
        self.module = module
        self.partitioner = GradPartitioner(module)
        self.accumulate = accumulate
        self.micro = 0

    def backward(self, loss):
        (loss / self.accumulate).backward()
        self.micro += 1

    def step(self, lr=1e-2):
        if self.micro % self.accumulate:
            return False
        self.partitioner.sync()
        self.partitioner.apply(lr)
        return True


def main(steps=20):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    engine = Engine(net)
    x = torch.randn(8192, 1024, device="cuda")
    for i in range(steps):
        loss = (net(x) - x).square().mean()
        engine.backward(loss)
        if engine.step() and i % 4 == 3:
            print("step", i, "loss", round(loss.item(), 5))


if __name__ == "__main__":
    main()
