"""Weight updates to inference ranks, one broadcast bucket pending at a time."""
from dataclasses import dataclass, field
from typing import Iterator

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class PendingBucket:
    names: list[str]
    tensors: list[torch.Tensor]
    works: list = field(default_factory=list)

    def wait(self) -> None:
        for work in self.works:
            work.wait()
        self.works.clear()
        self.tensors.clear()


class WeightPublisher:
    def __init__(self, group, bucket_bytes: int = 64 << 20):
        self.group = group
        self.bucket_bytes = bucket_bytes
        self.version = 0

    def _buckets(self, model: nn.Module) -> Iterator[list[tuple[str, nn.Parameter]]]:
        bucket, size = [], 0
        for name, p in model.named_parameters():
            nbytes = p.numel() * 2
            if bucket and size + nbytes > self.bucket_bytes:
                yield bucket
                bucket, size = [], 0
            bucket.append((name, p))
            size += nbytes
        if bucket:
            yield bucket

    def _materialize(self, bucket) -> PendingBucket:
        names = [n for n, _ in bucket]
        tensors = [p.detach().to(torch.bfloat16, copy=True) for _, p in bucket]
        return PendingBucket(names, tensors)

    def _start(self, bucket: PendingBucket) -> PendingBucket:
        bucket.works = [
            dist.broadcast(t, src=0, group=self.group, async_op=True) for t in bucket.tensors
        ]
        return bucket

    def publish(self, model: nn.Module) -> int:
        pending = None
        for spec in self._buckets(model):
            ready = self._materialize(spec)
            if pending is not None:
                pending.wait()
            pending = self._start(ready)
        if pending is not None:
            pending.wait()
        self.version += 1
        return self.version


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    publisher = WeightPublisher(dist.group.WORLD, bucket_bytes=16 << 20)
    for step in range(10):
        loss = model(torch.randn(4, 2048, device="cuda")).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        publisher.publish(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
