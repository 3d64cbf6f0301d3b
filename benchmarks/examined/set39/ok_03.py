"""Sharded-parameter wrapper with two long-lived gather buffers and one block of lookahead."""
import os

import torch
import torch.distributed as dist


class GatherBuffers:
    def __init__(self, numel, count=2):
        self.stream = torch.cuda.Stream()
        self.buffers = [torch.empty(numel, device="cuda") for _ in range(count)]
        self.last_use = [torch.cuda.Event() for _ in range(count)]
        self.gathered = [torch.cuda.Event() for _ in range(count)]
        for ev in self.last_use:
            ev.record()
        self.next = 0

    def gather(self, shard, group):
        i = self.next
        self.next = (i + 1) % len(self.buffers)
        self.stream.wait_event(self.last_use[i])
        with torch.cuda.stream(self.stream):
            dist.all_gather_into_tensor(self.buffers[i], shard, group=group)
            self.gathered[i].record()
        return i

    def use(self, i):
        torch.cuda.current_stream().wait_event(self.gathered[i])
        return self.buffers[i]

    def done(self, i):
        self.last_use[i].record()


class Tower:
    def __init__(self, features, depth, group):
        self.features = features
        self.group = group
        world = dist.get_world_size(group)
        numel = features * features
        self.shards = [torch.randn(numel // world, device="cuda") for _ in range(depth)]
        self.bufs = GatherBuffers(numel)
        self.bufs.stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def forward(self, x):
        ticket = self.bufs.gather(self.shards[0], self.group)
        for i in range(len(self.shards)):
            upcoming = None
            if i + 1 < len(self.shards):
                upcoming = self.bufs.gather(self.shards[i + 1], self.group)
            weight = self.bufs.use(ticket).view(self.features, self.features)
            x = x + torch.relu(x @ weight)
            self.bufs.done(ticket)
            ticket = upcoming
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    model = Tower(4096, depth=8, group=dist.group.WORLD)
    for step in range(10):
        out = model.forward(torch.randn(2048, 4096, device="cuda"))
        if step % 5 == 0:
            print(step, out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
