import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Bucket:
    def __init__(self, numel):
        self.flat = torch.empty(numel, device="cuda")
        self.free = torch.cuda.Event()


def plan_buckets(named, limit):
    plan, current, size = [], [], 0
    for name, p in named:
        if current and size + p.numel() > limit:
            plan.append(current)
            current, size = [], 0
        current.append((name, p.shape, p.numel()))
        size += p.numel()
    if current:
        plan.append(current)
    return plan


class BroadcastWeightSync:
    """Packs parameters into one contiguous buffer per bucket, one broadcast per bucket."""

    def __init__(self, model, group, src=0, limit=1 << 22):
        self.params = dict(model.named_parameters())
        self.plan = plan_buckets(self.params.items(), limit)
        self.group = group
        self.src = src
        numel = max(sum(n for _, _, n in b) for b in self.plan)
        self.pack_stream = torch.cuda.Stream()
        self.send_stream = torch.cuda.Stream()
        self.buckets = [Bucket(numel) for _ in range(2)]
        self.pack_stream.wait_stream(torch.cuda.current_stream())
        self.send_stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def sync(self):
        compute = torch.cuda.current_stream()
        self.pack_stream.wait_stream(compute)
        self.send_stream.wait_stream(compute)
        sender = dist.get_rank(self.group) == self.src
        for i, entries in enumerate(self.plan):
            bucket = self.buckets[i % 2]
            total = sum(n for _, _, n in entries)
            view = bucket.flat[:total]
            if sender:
                with torch.cuda.stream(self.pack_stream):
                    if i >= 2:
                        self.pack_stream.wait_event(bucket.free)
                    offset = 0
                    for name, _, n in entries:
                        view[offset : offset + n].copy_(self.params[name].view(-1))
                        offset += n
                self.send_stream.wait_stream(self.pack_stream)
            with torch.cuda.stream(self.send_stream):
                dist.broadcast(view, self.src, group=self.group)
                if not sender:
                    for (name, shape, n), piece in zip(entries, view.split([n for _, _, n in entries])):
                        self.params[name].copy_(piece.view(shape))
                bucket.free.record(self.send_stream)
        compute.wait_stream(self.send_stream)
        compute.wait_stream(self.pack_stream)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(12)]).cuda()
    syncer = BroadcastWeightSync(model, dist.group.WORLD)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(8):
        if dist.get_rank() == 0:
            model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
            opt.step()
            opt.zero_grad(set_to_none=True)
        syncer.sync()
        with torch.no_grad():
            out = model(torch.ones(1, 1024, device="cuda"))
        print(dist.get_rank(), step, out.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
