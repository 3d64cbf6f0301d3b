"""Sharded blocks gathered into a pair of reusable flat buffers."""
import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedLinear:
    def __init__(self, weight, rank, world):
        self.shape = weight.shape
        self.numel = weight.numel()
        padded = -(-self.numel // world) * world
        flat = F.pad(weight.reshape(-1), (0, padded - self.numel))
        self.shard = flat.chunk(world)[rank].clone()
        self.padded = padded


class ShardedStack:
    def __init__(self, weights, device, group=None):
        self.device = torch.device(device)
        self.group = group
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        self.layers = [ShardedLinear(w.to(self.device), rank, world) for w in weights]
        biggest = max(layer.padded for layer in self.layers)
        dtype = weights[0].dtype
        self.flats = [
            torch.empty(biggest, dtype=dtype, device=self.device) for _ in range(2)
        ]
        self.gather = torch.cuda.Stream(self.device)
        self.compute = torch.cuda.Stream(self.device)
        for stream in (self.gather, self.compute):
            stream.wait_stream(torch.cuda.current_stream(self.device))
            for flat in self.flats:
                flat.record_stream(stream)
        self.gathered = [torch.cuda.Event() for _ in range(2)]
        self.consumed = [torch.cuda.Event() for _ in range(2)]

    def _unshard(self, index):
        layer = self.layers[index]
        slot = index % 2
        with torch.cuda.stream(self.gather):
            self.gather.wait_event(self.consumed[slot])
            out = self.flats[slot][: layer.padded]
            dist.all_gather_into_tensor(out, layer.shard, group=self.group)
            self.gathered[slot].record(self.gather)

    def _full(self, index):
        layer = self.layers[index]
        return self.flats[index % 2][: layer.numel].view(layer.shape)

    @torch.inference_mode()
    def forward(self, x):
        caller = torch.cuda.current_stream(self.device)
        self.gather.wait_stream(caller)
        self.compute.wait_stream(caller)
        try:
            self._unshard(0)
            with torch.cuda.stream(self.compute):
                for index in range(len(self.layers)):
                    if index + 1 < len(self.layers):
                        self._unshard(index + 1)
                    slot = index % 2
                    self.compute.wait_event(self.gathered[slot])
                    try:
                        x = F.linear(x, self._full(index))
                        x = F.silu(x)
                    finally:
                        self.consumed[slot].record(self.compute)
        finally:
            caller.wait_stream(self.gather)
            caller.wait_stream(self.compute)
        x.record_stream(caller)
        return x

    def update(self, index, value):
        layer = self.layers[index]
        caller = torch.cuda.current_stream(self.device)
        self.gather.wait_stream(caller)
        with torch.cuda.stream(self.gather):
            layer.shard.copy_(value)
        caller.wait_stream(self.gather)
