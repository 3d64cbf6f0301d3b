"""Reference policy for preference tuning: parameters are materialised only while a unit runs."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class FlatUnit:
    def __init__(self, dim):
        self.dim = dim
        self.numel = dim * dim
        self.shard = torch.randn(self.numel // dist.get_world_size(), device="cuda") * dim ** -0.5
        self.full = torch.empty(self.numel, device="cuda")
        self.bytes = self.full.untyped_storage().size()
        self.full.untyped_storage().resize_(0)
        self.gathered = torch.cuda.Event()

    def unshard(self, stream):
        with torch.cuda.stream(stream):
            self.full.untyped_storage().resize_(self.bytes)
            dist.all_gather_into_tensor(self.full, self.shard)
            self.gathered.record(stream)

    def compute(self, x):
        torch.cuda.current_stream().wait_event(self.gathered)
        return F.silu(F.linear(x, self.full.view(self.dim, self.dim)))

    def reshard(self):
        self.full.record_stream(torch.cuda.current_stream())
        self.full.untyped_storage().resize_(0)


class ReferencePolicy:
    def __init__(self, depth, dim):
        self.units = [FlatUnit(dim) for _ in range(depth)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.no_grad()
    def __call__(self, x):
        self.units[0].unshard(self.stream)
        for unit, following in zip(self.units, self.units[1:] + [None]):
            if following is not None:
                following.unshard(self.stream)
            x = unit.compute(x)
            unit.reshard()
        return x


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    reference = ReferencePolicy(16, 4096)
    policy = nn.Linear(4096, 4096).cuda()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    for _ in range(200):
        x = torch.randn(64, 4096, device="cuda")
        margin = (policy(x) - reference(x)).mean(-1)
        loss = -F.logsigmoid(0.1 * margin).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
