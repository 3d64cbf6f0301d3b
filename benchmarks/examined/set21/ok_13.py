from dataclasses import dataclass, field
from typing import List

import numpy as np
import torch
import torch.nn as nn


@dataclass
class KVCache:
    keys: List[torch.Tensor] = field(default_factory=list)
    values: List[torch.Tensor] = field(default_factory=list)
    length: int = 0

    @classmethod
    def allocate(cls, depth: int, batch: int, max_len: int, dim: int, device) -> "KVCache":
        make = lambda: torch.empty(batch, max_len, dim, device=device, dtype=torch.float16)
        return cls([make() for _ in range(depth)], [make() for _ in range(depth)])


class Stage2Model(nn.Module):
    def __init__(self, vocab: int, dim: int, depth: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.ModuleList([nn.Linear(dim, 3 * dim) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids: torch.Tensor, cache: KVCache) -> torch.Tensor:
        x = self.embed(ids)
        begin, end = cache.length, cache.length + ids.shape[1]
        for layer, proj in enumerate(self.qkv):
            q, k, v = proj(x).chunk(3, dim=-1)
            cache.keys[layer][:, begin:end] = k
            cache.values[layer][:, begin:end] = v
            x = x + nn.functional.scaled_dot_product_attention(
                q, cache.keys[layer][:, :end], cache.values[layer][:, :end], is_causal=ids.shape[1] > 1 and begin == 0
            )
        cache.length = end
        return self.head(x[:, -1])


class Stage2Pipeline:
    """Expands codec prompts minibatch by minibatch."""

    def __init__(self, vocab: int = 8192, dim: int = 1024, depth: int = 12, max_len: int = 1024):
        self.device = torch.device("cuda")
        self.model = Stage2Model(vocab, dim, depth).half().to(self.device).eval()
        self.dim, self.depth, self.max_len = dim, depth, max_len

    @torch.inference_mode()
    def _generate_minibatch(self, codec_ids: torch.Tensor, new_tokens: int) -> torch.Tensor:
        cache = KVCache.allocate(self.depth, codec_ids.shape[0], self.max_len, self.dim, self.device)
        ids = codec_ids
        parts = []
        for _ in range(new_tokens):
            logits = self.model(ids, cache)
            ids = logits.argmax(dim=-1, keepdim=True)
            parts.append(ids)
        output = torch.cat(parts, dim=-1)
        del cache
        torch.cuda.empty_cache()
        return output

    def generate(self, prompts: np.ndarray, minibatch: int, new_tokens: int) -> np.ndarray:
        outputs = []
        for begin in range(0, prompts.shape[0], minibatch):
            codec_ids = torch.from_numpy(prompts[begin:begin + minibatch]).pin_memory()
            codec_ids = codec_ids.to(self.device, non_blocking=True)
            outputs.append(self._generate_minibatch(codec_ids, new_tokens))
        return np.concatenate([o.flatten().cpu().numpy() for o in outputs])


def main() -> int:
    pipeline = Stage2Pipeline()
    prompts = np.random.randint(0, 8192, size=(32, 128), dtype=np.int64)
    return int(pipeline.generate(prompts, minibatch=8, new_tokens=256).sum())
