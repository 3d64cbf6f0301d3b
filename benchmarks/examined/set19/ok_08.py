"""Full-parameter checkpoint: tensors are staged into one page-locked arena and written shard by shard."""
import json
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file

_ALIGN = 512


class PinnedArena:
    def __init__(self, nbytes):
        self.storage = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.used = 0

    def fits(self, nbytes):
        return self.used + nbytes <= self.storage.numel()

    def take(self, tensor):
        nbytes = tensor.numel() * tensor.element_size()
        view = self.storage[self.used : self.used + nbytes].view(tensor.dtype).view(tensor.shape)
        self.used += (nbytes + _ALIGN - 1) // _ALIGN * _ALIGN
        return view

    def reset(self):
        self.used = 0


class FullParamSaver:
    def __init__(self, path, arena_bytes, group=None):
        self.path = Path(path)
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)
        self.arena = PinnedArena(arena_bytes)
        self.copy_stream = torch.cuda.Stream()
        self.pending = {}
        self.weight_map = {}
        self.shard_id = 0

    def _flush(self):
        if not self.pending:
            return
        self.copy_stream.synchronize()
        name = f"model-{self.rank:05d}-{self.shard_id:05d}.safetensors"
        save_file(self.pending, str(self.path / name))
        self.weight_map.update({key: name for key in self.pending})
        self.pending = {}
        self.arena.reset()
        self.shard_id += 1

    def _stage(self, key, tensor):
        nbytes = tensor.numel() * tensor.element_size()
        if not self.arena.fits(nbytes):
            self._flush()
        host = self.arena.take(tensor)
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.copy_stream)
        self.pending[key] = host

    def _gather(self, shard):
        parts = torch.empty((self.world, *shard.shape), dtype=shard.dtype, device=shard.device)
        dist.all_gather_into_tensor(parts.view(-1), shard.contiguous().view(-1), group=self.group)
        return parts.flatten(0, 1)

    @torch.no_grad()
    def save(self, named_shards):
        self.path.mkdir(parents=True, exist_ok=True)
        for i, (key, shard) in enumerate(named_shards):
            full = self._gather(shard.to(torch.bfloat16))
            if i % self.world == self.rank:
                self._stage(key, full)
        self._flush()
        maps = [None] * self.world
        dist.all_gather_object(maps, self.weight_map, group=self.group)
        if self.rank == 0:
            merged = {k: v for m in maps for k, v in m.items()}
            (self.path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": merged}))


def checkpoint(model, step, out_dir):
    saver = FullParamSaver(f"{out_dir}/step_{step}", arena_bytes=4 << 30)
    saver.save(sorted(model.named_parameters()))
    dist.barrier()
