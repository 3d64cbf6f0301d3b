"""Fully sharded forward pass with two reusable gather buffers."""
import torch
import torch.distributed as dist
from torch import nn


class ShardedLinear(nn.Module):
    def __init__(self, width, rank, world):
        super().__init__()
        torch.manual_seed(0)
        full = torch.randn(width * width) / width ** 0.5
        self.width = width
        self.register_buffer("shard", full.chunk(world)[rank].clone())


class GatherBuffers:
    """Two flat buffers; each remembers when the layer that used it last was done."""

    def __init__(self, numel, device):
        self.flat = [torch.empty(numel, device=device) for _ in range(2)]
        self.filled = [torch.cuda.Event() for _ in range(2)]
        self.released = [torch.cuda.Event() for _ in range(2)]


class Unsharder:
    def __init__(self, layers, numel, device):
        self.layers = layers
        self.buffers = GatherBuffers(numel, device)
        self.comm = torch.cuda.Stream()
        self.comm.wait_stream(torch.cuda.current_stream())
        self.ticket = 0
        self.pending = {}

    def prefetch(self, index):
        if index >= len(self.layers) or index in self.pending:
            return
        slot = self.ticket % 2
        self.ticket += 1
        self.comm.wait_event(self.buffers.released[slot])
        with torch.cuda.stream(self.comm):
            dist.all_gather_into_tensor(self.buffers.flat[slot], self.layers[index].shard)
            self.buffers.filled[slot].record()
        self.pending[index] = slot

    def acquire(self, index):
        self.prefetch(index)
        slot = self.pending.pop(index)
        torch.cuda.current_stream().wait_event(self.buffers.filled[slot])
        return slot, self.buffers.flat[slot]

    def release(self, slot):
        self.buffers.released[slot].record()


class ShardedStack(nn.Module):
    def __init__(self, width, depth, rank, world, device):
        super().__init__()
        self.layers = nn.ModuleList(ShardedLinear(width, rank, world) for _ in range(depth))
        self.to(device)
        self.unsharder = Unsharder(self.layers, width * width, device)

    @torch.inference_mode()
    def forward(self, x):
        for index, layer in enumerate(self.layers):
            slot, flat = self.unsharder.acquire(index)
            self.unsharder.prefetch(index + 1)
            weight = flat.view(layer.width, layer.width)
            x = x + nn.functional.silu(x @ weight)
            self.unsharder.release(slot)
        return x


def main(width=4096, depth=24, steps=8, rows=256):
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    model = ShardedStack(width, depth, rank, world, device)
    x = torch.randn(rows, width, device=device)
    for _ in range(steps):
        x = nn.functional.rms_norm(model(x), (width,))
    value = x.abs().mean().item()
    dist.destroy_process_group()
    return value


if __name__ == "__main__":
    main()
