import threading
from pathlib import Path
from typing import Dict

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

_staging_buffers: Dict[str, torch.Tensor] = {}


def resolve_fqn(key: str) -> str:
    for prefix in ("_orig_mod.", "module."):
        key = key.replace(prefix, "")
    return key


def owner_of(index: int, world_size: int) -> int:
    return index % world_size


def gather_owned(model, rank, world_size, dtype=torch.bfloat16):
    """Full tensors of the keys that this rank writes, in pinned host buffers."""
    partial = {}
    for index, (key, value) in enumerate(model.state_dict().items()):
        if isinstance(value, DTensor):
            value = value.full_tensor()
        if owner_of(index, world_size) != rank:
            del value
            continue
        fqn = resolve_fqn(key)
        if value.is_cuda:
            value = value.to(dtype)
            buffer = _staging_buffers.get(fqn)
            if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
                buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                _staging_buffers[fqn] = buffer
            buffer.copy_(value, non_blocking=True)
            partial[fqn] = buffer
        else:
            partial[fqn] = value
        del value
    torch.cuda.synchronize()
    return partial


class RankParallelSaver:
    def __init__(self, directory, rank, world_size):
        self.directory = Path(directory)
        self.rank = rank
        self.world_size = world_size
        self._thread = None

    def save(self, model, step):
        if self._thread is not None:
            self._thread.join()
        partial = gather_owned(model, self.rank, self.world_size)
        target = self.directory / f"step_{step}"
        target.mkdir(parents=True, exist_ok=True)
        name = f"model-{self.rank:05d}-of-{self.world_size:05d}.safetensors"
        self._thread = threading.Thread(target=save_file, args=(partial, str(target / name)))
        self._thread.start()

    def close(self):
        if self._thread is not None:
            self._thread.join()
