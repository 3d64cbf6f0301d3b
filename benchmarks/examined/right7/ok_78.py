"""Parameter coordinator fetching shards through an in-flight registry."""
from collections import OrderedDict
from enum import Enum, auto

import torch
import torch.distributed as dist
from torch import nn


class Status(Enum):
    REMOTE = auto()
    INFLIGHT = auto()
    LOCAL = auto()


class Partitioned:
    def __init__(self, p: nn.Parameter):
        world, rank = dist.get_world_size(), dist.get_rank()
        self.param, self.shape = p, p.shape
        flat = p.detach().flatten()
        flat = nn.functional.pad(flat, (0, -flat.numel() % world))
        self.shard = flat.view(world, -1)[rank].clone()
        self.full_numel = flat.numel()
        self.status = Status.REMOTE
        p.data = self.shard.new_empty(0)


class Coordinator:
    def __init__(self, layers, ahead=2):
        self.layers = [[Partitioned(p) for p in l.parameters()] for l in layers]
        self.inflight: "OrderedDict[Partitioned, tuple]" = OrderedDict()
        self.ahead = ahead
        for i, layer in enumerate(layers):
            layer.register_forward_pre_hook(lambda m, a, i=i: self.fetch(i))
            layer.register_forward_hook(lambda m, a, o, i=i: self.release(i))

    def _gather(self, part: Partitioned):
        if part.status is not Status.REMOTE:
            return
        full = part.shard.new_empty(part.full_numel)
        work = dist.all_gather_into_tensor(full, part.shard, async_op=True)
        self.inflight[part] = (work, full)
        part.status = Status.INFLIGHT

    def _land(self, part: Partitioned):
        if part.status is Status.INFLIGHT:
            work, full = self.inflight.pop(part)
            work.wait()
            part.param.data = full[: part.shape.numel()].view(part.shape)
            part.status = Status.LOCAL

    def fetch(self, i: int):
        for j in range(i, min(i + 1 + self.ahead, len(self.layers))):
            for part in self.layers[j]:
                self._gather(part)
        for part in self.layers[i]:
            self._land(part)

    def release(self, i: int):
        for part in self.layers[i]:
            part.param.data = part.shard.new_empty(0)
            part.status = Status.REMOTE


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(8)).cuda()
    Coordinator(layers)
    x = torch.ones(4, 512, device="cuda")
    for _ in range(2):
        for layer in layers:
            x = torch.relu(layer(x))
    print(x.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
