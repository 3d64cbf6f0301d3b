"""Sharded inference: full parameters exist only around the layer that needs them."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedWeight:
    def __init__(self, full, streams):
        world, rank = dist.get_world_size(), dist.get_rank()
        self.shape = full.shape
        flat = full.flatten()
        self.nbytes = flat.numel() * flat.element_size()
        self.shard = flat.chunk(world)[rank].clone()
        self.full = torch.empty_like(flat)
        self.full.untyped_storage().resize_(0)
        self.unshard_stream = streams
        self.gathered = None

    def unshard(self):
        with torch.cuda.stream(self.unshard_stream):
            self.full.untyped_storage().resize_(self.nbytes)
            dist.all_gather_into_tensor(self.full, self.shard)
            self.gathered = self.unshard_stream.record_event()

    def wait(self):
        torch.cuda.current_stream().wait_event(self.gathered)
        return self.full.view(self.shape)

    def reshard(self):
        self.full.record_stream(torch.cuda.current_stream())
        self.full.untyped_storage().resize_(0)


class ShardedMLP:
    def __init__(self, dim, depth):
        self.stream = torch.cuda.Stream()
        self.layers = []
        for i in range(depth):
            g = torch.Generator("cuda").manual_seed(i)
            full = torch.randn(dim, dim, device="cuda", generator=g) / dim ** 0.5
            self.layers.append(ShardedWeight(full, self.stream))

    def forward(self, x):
        self.stream.wait_stream(torch.cuda.current_stream())
        self.layers[0].unshard()
        for i, layer in enumerate(self.layers):
            weight = layer.wait()
            if i + 1 < len(self.layers):
                self.layers[i + 1].unshard()
            x = F.silu(x @ weight)
            del weight
            layer.reshard()
        return x


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = ShardedMLP(4096, 12)
    x = torch.randn(256, 4096, device="cuda")
    for _ in range(5):
        x = F.layer_norm(net.forward(x), (4096,))
    print(dist.get_rank(), x.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
