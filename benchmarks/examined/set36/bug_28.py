"""Sharded optimizer with parameter all-gathers that overlap the next forward pass."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Bucket:
    def __init__(self, params, group=None):
        self.params = list(params)
        self.group = group
        self.world = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        numel = sum(p.numel() for p in self.params)
        self.shard_numel = -(-numel // self.world)
        self.data = torch.zeros(self.shard_numel * self.world, device=self.params[0].device)
        offset = 0
        for p in self.params:
            view = self.data[offset:offset + p.numel()].view_as(p)
            view.copy_(p.data)
            p.data = view
            offset += p.numel()
        self.shard = self.data[self.rank * self.shard_numel:(self.rank + 1) * self.shard_numel]
        self.master = self.shard.clone()
        self.handle = None

    def step(self, lr):
        flat = torch.zeros_like(self.data)
        offset = 0
        for p in self.params:
            if p.grad is not None:
                flat[offset:offset + p.numel()].copy_(p.grad.reshape(-1))
                p.grad = None
            offset += p.numel()
        mine = torch.empty_like(self.shard)
        dist.reduce_scatter_tensor(mine, flat, group=self.group)
        self.master.add_(mine, alpha=-lr / self.world)

    def start_gather(self):
        self.handle = dist.all_gather_into_tensor(self.data, self.master, group=self.group, async_op=True)

    def finish_gather(self):
        if self.handle is not None:
            self.handle.wait()
            self.handle = None


class OverlapParamGather:
    def __init__(self, model: nn.Module):
        self.buckets = []
        self.owner = {}
        for module in model.modules():
            params = list(module.parameters(recurse=False))
            if not params:
                continue
            bucket = Bucket(params)
            self.buckets.append(bucket)
            self.owner[module] = bucket
            module.register_forward_pre_hook(self._pre_forward)

    def _pre_forward(self, module, args):
        self.owner[module].finish_gather()

    def step(self, lr=1e-2):
        for bucket in self.buckets:
            bucket.step(lr)
        for bucket in self.buckets:
            bucket.start_gather()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class TinyGPT(nn.Module):
    def __init__(self, vocab=8192, dim=512, layers=4, context=256):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab, dim)
        self.position_embeddings = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.word_embeddings(ids)
        x = x + self.position_embeddings.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = TinyGPT().cuda()
    optimizer = OverlapParamGather(model)
    for _ in range(100):
        ids = torch.randint(0, 8192, (8, 256), device="cuda")
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
