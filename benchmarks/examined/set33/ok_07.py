"""Data parallel helper: collectives are started and finished on one side stream."""
import torch
import torch.distributed as dist
from torch import nn


class AsyncReducer:
    """Averages the gradients of all ranks, bucket by bucket."""

    def __init__(self, params, group=None, bucket_numel=4_000_000):
        self.params = [p for p in params if p.requires_grad]
        self.group = group
        self.world = dist.get_world_size(group)
        self.device = self.params[0].device
        self.side = torch.cuda.Stream(self.device)
        self.bucket_numel = bucket_numel
        self.inflight = []

    def _buckets(self):
        bucket, size = [], 0
        for p in reversed(self.params):
            if p.grad is None:
                continue
            bucket.append(p)
            size += p.numel()
            if size >= self.bucket_numel:
                yield bucket
                bucket, size = [], 0
        if bucket:
            yield bucket

    def start(self):
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            for bucket in self._buckets():
                grads = [p.grad for p in bucket]
                flat = torch.cat([g.reshape(-1) for g in grads])
                work = dist.all_reduce(flat, group=self.group, async_op=True)
                self.inflight.append((work, flat, grads))

    def finish(self):
        with torch.cuda.stream(self.side):
            for work, flat, grads in self.inflight:
                work.wait()
                flat.div_(self.world)
                offset = 0
                for g in grads:
                    g.copy_(flat[offset : offset + g.numel()].view_as(g))
                    offset += g.numel()
        torch.cuda.current_stream(self.device).wait_stream(self.side)
        self.inflight.clear()


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.reducer = AsyncReducer(model.parameters())
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.regularizer = torch.zeros((), device=self.reducer.device)

    def _weight_statistics(self):
        with torch.no_grad():
            self.regularizer = sum(p.float().pow(2).sum() for p in self.model.parameters())

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.reducer.start()
        self._weight_statistics()
        self.reducer.finish()
        self.optimizer.step()
        return loss.detach(), self.regularizer


def build(local_rank, dim=2048, depth=6):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    layers = [nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)]
    return Trainer(nn.Sequential(*layers).cuda())
