"""ZeRO-2 style gradient buckets reduced on a side stream during backward."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class GradBucket:
    def __init__(self, numel, device):
        self.buffer = torch.empty(numel, device=device)
        self.reset()

    def reset(self):
        self.offset = 0
        self.members = []

    def has_room(self, numel):
        return self.offset + numel <= self.buffer.numel()

    def append(self, param):
        n = param.numel()
        self.buffer[self.offset:self.offset + n].copy_(param.grad.view(-1))
        self.members.append((param, self.offset, n))
        self.offset += n
        param.grad = None


class PartitionedGradients:
    """fp32 gradient storage of the parameters this rank updates."""

    def __init__(self, params, rank, world, device):
        self.owned = {}
        for i, p in enumerate(params):
            if i % world == rank:
                self.owned[p] = torch.zeros(p.numel(), device=device)

    def accumulate(self, param, flat):
        if param in self.owned:
            self.owned[param].add_(flat)


class Zero2Reducer:
    def __init__(self, module, bucket_numel, overlap_comm=True):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.world = dist.get_world_size()
        self.bucket = GradBucket(bucket_numel, self.device)
        self.partition = PartitionedGradients(
            self.params, dist.get_rank(), self.world, self.device)
        self.reduction_stream = (torch.cuda.Stream(self.device) if overlap_comm
                                 else torch.cuda.current_stream(self.device))
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, param):
        if not self.bucket.has_room(param.numel()):
            self._reduce_bucket()
        self.bucket.append(param)

    def _reduce_bucket(self):
        if not self.bucket.members:
            return
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            flat = self.bucket.buffer[:self.bucket.offset]
            dist.all_reduce(flat)
            flat.div_(self.world)
            for param, start, n in self.bucket.members:
                self.partition.accumulate(param, flat[start:start + n])
        self.bucket.reset()

    @torch.no_grad()
    def step(self, lr):
        self._reduce_bucket()
        torch.cuda.current_stream(self.device).wait_stream(self.reduction_stream)
        for param, grad in self.partition.owned.items():
            param.add_(grad.view_as(param), alpha=-lr)
            grad.zero_()
        for i, param in enumerate(self.params):
            dist.broadcast(param.data, src=i % self.world)


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(12)]).to(device)
    reducer = Zero2Reducer(model, 2 * 512 * 513)
    for _ in range(20):
        loss = model(torch.randn(64, 512, device=device)).pow(2).mean()
        loss.backward()
        reducer.step(1e-2)
    print(loss.item())


if __name__ == "__main__":
    main()
