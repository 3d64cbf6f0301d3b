"""Weight-sharded MLP stack for inference: the next layer's weight is gathered while the current one computes."""
import os
from typing import List

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class ShardedLinear(nn.Module):
    def __init__(self, features: int, world: int):
        super().__init__()
        self.features = features
        self.shard = nn.Parameter(torch.randn(features // world, features) * features**-0.5)

    def gather_into(self, full: torch.Tensor, group: dist.ProcessGroup, async_op: bool):
        return dist.all_gather_into_tensor(full, self.shard.data, group=group, async_op=async_op)


class ShardedStack(nn.Module):
    def __init__(self, depth: int, features: int, group: dist.ProcessGroup):
        super().__init__()
        world = dist.get_world_size(group)
        self.group = group
        self.layers = nn.ModuleList(ShardedLinear(features, world) for _ in range(depth))
        self.norm = nn.LayerNorm(features)
        self.register_buffer("full", torch.empty(2, features, features), persistent=False)

    def _weight(self, index: int) -> torch.Tensor:
        return self.full[index % 2]

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        works: List[dist.Work] = []
        self.layers[0].gather_into(self._weight(0), self.group, async_op=False)
        for index in range(len(self.layers)):
            if index + 1 < len(self.layers):
                upcoming = self.layers[index + 1]
                works.append(upcoming.gather_into(self._weight(index + 1), self.group, async_op=True))
            x = x + F.gelu(F.linear(x, self._weight(index)))
        for work in works:
            work.wait()
        return self.norm(x)


class Generator:
    def __init__(self, stack: ShardedStack, vocabulary: int, features: int):
        self.stack = stack
        device = stack.full.device
        self.embedding = nn.Embedding(vocabulary, features, device=device)

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor, steps: int) -> torch.Tensor:
        tokens = prompt
        for _ in range(steps):
            hidden = self.stack(self.embedding(tokens[:, -1]))
            logits = hidden @ self.embedding.weight.t()
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return tokens


def main() -> None:
    dist.init_process_group("nccl")
    local = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local)
    torch.manual_seed(dist.get_rank())
    stack = ShardedStack(24, 4096, dist.group.WORLD).to(f"cuda:{local}")
    torch.manual_seed(0)
    generator = Generator(stack, 32000, 4096)
    prompt = torch.randint(0, 32000, (16, 8), device=f"cuda:{local}")
    out = generator.generate(prompt, 32)
    if dist.get_rank() == 0:
        print(out[:, -4:].tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
