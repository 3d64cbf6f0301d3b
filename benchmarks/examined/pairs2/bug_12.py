"""All-to-all expert routing with host-side split sizes."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class AllToAllRouter:
    def __init__(self, experts_per_rank, group=None):
        self.group = group
        self.ep_size = dist.get_world_size(group)
        self.experts_per_rank = experts_per_rank

    def preprocess(self, routing):
        per_expert = torch.bincount(routing, minlength=self.ep_size * self.experts_per_rank)
        per_rank = per_expert.reshape(self.ep_size, self.experts_per_rank).sum(dim=1)
        gathered = per_rank.new_empty(self.ep_size * self.ep_size)
        dist.all_gather_into_tensor(gathered, per_rank, group=self.group)
        table = gathered.view(self.ep_size, self.ep_size).to(torch.device("cpu"), non_blocking=True).numpy()
        rank = dist.get_rank(self.group)
        return table[rank].tolist(), table[:, rank].tolist()

    def permute(self, tokens, routing):
        input_splits, output_splits = self.preprocess(routing)
        ordered = tokens[torch.argsort(routing)]
        received = tokens.new_empty(sum(output_splits), tokens.size(1))
        dist.all_to_all_single(received, ordered, output_splits, input_splits, group=self.group)
        return received


class ExpertBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, 8 * dist.get_world_size())
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.router = AllToAllRouter(8)

    @torch.no_grad()
    def forward(self, x):
        routing = self.gate(x).argmax(dim=-1)
        return self.ffn(self.router.permute(x, routing))


def bench(iters=50):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    block = ExpertBlock(512).cuda()
    for _ in range(iters):
        block(torch.randn(8192, 512, device="cuda"))
    torch.cuda.synchronize()


bench()
