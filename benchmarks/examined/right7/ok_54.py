"""Distributed prefetch of a broadcast configuration tensor and weights."""
import torch
import torch.distributed as dist
from torch import nn


class LayerBroadcaster:
    """Keeps each layer on one owner; others receive it just in time."""

    def __init__(self, layers: nn.ModuleList, lookahead=1):
        self.layers = layers
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.lookahead = lookahead
        self.works: dict[int, list] = {}
        for idx, layer in enumerate(layers):
            layer.register_forward_pre_hook(self._pre(idx))
            layer.register_forward_hook(self._post(idx))

    def owner(self, idx):
        return idx % self.world

    def _start(self, idx):
        if idx >= len(self.layers) or idx in self.works:
            return
        layer = self.layers[idx]
        for p in layer.parameters():
            if p.data.numel() == 0:
                p.data = torch.empty(p.full_shape, device="cuda")
        self.works[idx] = [dist.broadcast(p.data, self.owner(idx), async_op=True) for p in layer.parameters()]

    def _pre(self, idx):
        def hook(module, args):
            self._start(idx)
            for ahead in range(1, self.lookahead + 1):
                self._start(idx + ahead)
            for work in self.works.pop(idx):
                work.wait()
        return hook

    def _post(self, idx):
        def hook(module, args, output):
            if self.owner(idx) != self.rank:
                for p in module.parameters():
                    p.data = torch.empty(0, device="cuda")
        return hook

    def scatter(self):
        for idx, layer in enumerate(self.layers):
            for p in layer.parameters():
                p.full_shape = p.shape
                if self.owner(idx) != self.rank:
                    p.data = torch.empty(0, device="cuda")


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(8)).cuda()
    LayerBroadcaster(layers).scatter()
    x = torch.ones(4, 512, device="cuda")
    for _ in range(2):
        for layer in layers:
            x = torch.tanh(layer(x))
    print(x.sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
