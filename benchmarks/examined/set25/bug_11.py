import os

import torch
import torch.distributed as dist
import torch.nn as nn


def make_chunks(shapes, limit):
    chunk, size = [], 0
    for name, shape in shapes:
        n = int(torch.Size(shape).numel())
        if chunk and size + n > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append((name, shape, n))
        size += n
    if chunk:
        yield chunk


def packed_broadcast_consumer(shapes, group, src, post_unpack_func, limit=1 << 22, num_buffers=2):
    streams = [torch.cuda.Stream() for _ in range(num_buffers)]
    packed = [None] * num_buffers
    for s in streams:
        s.wait_stream(torch.cuda.current_stream())
    idx = 0
    for chunk in make_chunks(shapes, limit):
        streams[idx].synchronize()
        with torch.cuda.stream(streams[idx]):
            packed[idx] = torch.empty(sum(n for _, _, n in chunk), device="cuda")
            dist.broadcast(packed[idx], src, group=group)
            pieces = packed[idx].split([n for _, _, n in chunk])
            post_unpack_func([(name, p.view(shape)) for (name, shape, _), p in zip(chunk, pieces)])
        idx = (idx + 1) % num_buffers
    for s in streams:
        s.synchronize()


def packed_broadcast_producer(state, group, src, limit=1 << 22):
    shapes = [(k, tuple(v.shape)) for k, v in state.items()]
    for chunk in make_chunks(shapes, limit):
        flat = torch.cat([state[name].reshape(-1) for name, _, _ in chunk])
        dist.broadcast(flat, src, group=group)


class LayerwiseLoader:
    """Collects the shards of a fused projection and installs it when all are present."""

    SHARDS = ("q_proj", "k_proj", "v_proj")

    def __init__(self, layers):
        self.layers = layers
        self.pending = {}

    def load_weights(self, weights):
        for name, tensor in weights:
            layer, shard = name.split(".")
            slot = self.pending.setdefault(int(layer), {})
            slot[shard] = tensor.clone()
            if len(slot) == len(self.SHARDS):
                self._finalize(int(layer), slot)

    def _finalize(self, layer, slot):
        fused = torch.cat([slot[s] for s in self.SHARDS], dim=0)
        self.layers[layer].weight.data.copy_(fused)
        self.pending[layer] = None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dim, depth = 1536, 8
    shapes = [(f"{i}.{s}", (dim, dim)) for i in range(depth) for s in LayerwiseLoader.SHARDS]
    if dist.get_rank() == 0:
        state = {name: torch.randn(shape, device="cuda") for name, shape in shapes}
        packed_broadcast_producer(state, dist.group.WORLD, 0)
    else:
        layers = nn.ModuleList(nn.Linear(dim, 3 * dim, bias=False) for _ in range(depth)).cuda()
        loader = LayerwiseLoader(layers)
        packed_broadcast_consumer(shapes, dist.group.WORLD, 0, loader.load_weights)
        with torch.inference_mode():
            print(layers[0](torch.randn(4, dim, device="cuda")).norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
