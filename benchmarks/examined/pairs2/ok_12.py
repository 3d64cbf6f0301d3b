"""Expert-parallel token exchange."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class TokenDispatcher:
    def __init__(self, num_experts, group):
        self.group = group
        self.world = dist.get_world_size(group)
        self.num_experts = num_experts
        self.meta_stream = torch.cuda.Stream()
        self.host_counts = torch.empty(2, self.world, dtype=torch.int64, pin_memory=True)

    def splits(self, expert_ids):
        local = torch.bincount(expert_ids, minlength=self.num_experts).view(self.world, -1).sum(1)
        remote = torch.empty_like(local)
        dist.all_to_all_single(remote, local, group=self.group)
        self.meta_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.meta_stream):
            self.host_counts[0].copy_(local, non_blocking=True)
            self.host_counts[1].copy_(remote, non_blocking=True)
        self.meta_stream.synchronize()
        return self.host_counts.tolist()

    def exchange(self, tokens, send, recv):
        out = tokens.new_empty(sum(recv), tokens.shape[1])
        work = dist.all_to_all_single(out, tokens, recv, send, group=self.group, async_op=True)
        return out, work


class MoELayer(nn.Module):
    def __init__(self, dim, num_experts, group):
        super().__init__()
        self.router = nn.Linear(dim, num_experts)
        self.shared = nn.Linear(dim, dim)
        self.expert = nn.Linear(dim, dim)
        self.dispatcher = TokenDispatcher(num_experts, group)

    @torch.no_grad()
    def forward(self, x):
        ids = self.router(x).argmax(-1)
        order = ids.argsort()
        send, recv = self.dispatcher.splits(ids)
        routed, work = self.dispatcher.exchange(x[order], send, recv)
        shared = self.shared(x)
        work.wait()
        back, work = self.dispatcher.exchange(self.expert(routed), recv, send)
        work.wait()
        return shared.index_add(0, order, back)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    layer = MoELayer(1024, 4 * dist.get_world_size(), dist.group.WORLD).cuda()
    for _ in range(20):
        y = layer(torch.randn(4096, 1024, device="cuda"))
    print(y.norm().item())


if __name__ == "__main__":
    main()
