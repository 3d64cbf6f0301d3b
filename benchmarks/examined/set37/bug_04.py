"""Prompt states kept on disk are staged through page-locked slabs and restored into the KV cache."""
import os
from typing import Dict, List, Tuple

import numpy as np
import torch


class SlabPool:
    def __init__(self, slabs: int, nbytes: int):
        self.nbytes = nbytes
        self._stack: List[torch.Tensor] = [
            torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(slabs)
        ]

    def acquire(self) -> torch.Tensor:
        if not self._stack:
            raise MemoryError("no free slab")
        return self._stack.pop()

    def release(self, slab: torch.Tensor) -> None:
        self._stack.append(slab)


class PromptStateCache:
    def __init__(self, root: str, kv: List[torch.Tensor], pool: SlabPool):
        self.root = root
        self.kv = kv
        self.pool = pool
        self.entries: Dict[str, Tuple[torch.Tensor, int]] = {}

    def stage(self, key: str) -> None:
        if key in self.entries:
            return
        path = os.path.join(self.root, key + ".state")
        raw = np.fromfile(path, dtype=np.uint8, count=self.pool.nbytes)
        slab = self.pool.acquire()
        slab.numpy()[: raw.size] = raw
        self.entries[key] = (slab, raw.size)

    def restore(self, key: str, seq: int) -> int:
        slab, nbytes = self.entries.pop(key)
        row_bytes = self.kv[0].shape[2] * self.kv[0].element_size()
        tokens = nbytes // (row_bytes * len(self.kv))
        offset = 0
        for layer in self.kv:
            span = tokens * row_bytes
            source = slab[offset : offset + span].view(layer.dtype).view(tokens, -1)
            layer[seq, :tokens].copy_(source, non_blocking=True)
            offset += span
        self.pool.release(slab)
        return tokens


class Server:
    def __init__(self, root: str, layers: int = 32, seqs: int = 16, ctx: int = 8192, width: int = 1024):
        self.kv = [
            torch.zeros(seqs, ctx, width, dtype=torch.float16, device="cuda") for _ in range(layers)
        ]
        slab_bytes = layers * 2048 * width * 2
        self.cache = PromptStateCache(root, self.kv, SlabPool(4, slab_bytes))
        self.weight = torch.randn(width, width, dtype=torch.float16, device="cuda")

    def decode(self, seq: int, tokens: int) -> torch.Tensor:
        hidden = self.kv[0][seq, :tokens]
        for layer in self.kv[1:]:
            hidden = torch.tanh(hidden @ self.weight) + layer[seq, :tokens]
        return hidden[-1]

    def serve(self, requests: List[Tuple[str, int]]) -> List[torch.Tensor]:
        outputs = []
        for key, seq in requests:
            self.cache.stage(key)
            tokens = self.cache.restore(key, seq)
            outputs.append(self.decode(seq, tokens))
        return [out.cpu() for out in outputs]


if __name__ == "__main__":
    server = Server("/var/lib/prompts")
    server.serve([(f"prompt{i}", i) for i in range(8)])
