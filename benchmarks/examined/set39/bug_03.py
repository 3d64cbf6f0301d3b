"""Sharded-parameter wrapper: gathers a block's weights before use and drops them after."""
import os

import torch
import torch.distributed as dist


class ShardedLinear(torch.nn.Module):
    def __init__(self, features, group, gather_stream):
        super().__init__()
        self.group = group
        self.gather_stream = gather_stream
        self.features = features
        world = dist.get_world_size(group)
        numel = features * features
        self.shard = torch.randn(numel // world, device="cuda")
        with torch.cuda.stream(gather_stream):
            self.full = torch.empty(numel, device="cuda")
        self._nbytes = self.full.untyped_storage().size()
        self.full.untyped_storage().resize_(0)

    def unshard(self):
        with torch.cuda.stream(self.gather_stream):
            self.full.untyped_storage().resize_(self._nbytes)
            dist.all_gather_into_tensor(self.full, self.shard, group=self.group)
        torch.cuda.current_stream().wait_stream(self.gather_stream)

    def reshard(self):
        self.full.untyped_storage().resize_(0)

    def forward(self, x):
        self.unshard()
        weight = self.full.view(self.features, self.features)
        y = torch.matmul(x, weight)
        self.reshard()
        return y


class Expert(torch.nn.Module):
    def __init__(self, features, group, gather_stream):
        super().__init__()
        self.up = ShardedLinear(features, group, gather_stream)
        self.down = ShardedLinear(features, group, gather_stream)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Tower(torch.nn.Module):
    def __init__(self, features, depth, group):
        super().__init__()
        self.gather_stream = torch.cuda.Stream()
        self.experts = torch.nn.ModuleList(
            Expert(features, group, self.gather_stream) for _ in range(depth)
        )
        self.gather_stream.wait_stream(torch.cuda.current_stream())

    def forward(self, x):
        for expert in self.experts:
            x = expert(x)
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    model = Tower(4096, depth=8, group=dist.group.WORLD)
    with torch.no_grad():
        for step in range(10):
            batch = torch.randn(2048, 4096, device="cuda")
            out = model(batch)
            if step % 5 == 0:
                print(step, out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
