"""Disaggregated serving: prefill on one GPU, decode on another."""
from dataclasses import dataclass
from typing import List

import torch
from torch import nn


@dataclass
class Handoff:
    keys: torch.Tensor
    values: torch.Tensor
    last: torch.Tensor


class PrefillDecode:
    def __init__(self, dim: int, vocab: int, prefill: torch.device, decode: torch.device):
        self.prefill_device = prefill
        self.decode_device = decode
        self.prefill_stream = torch.cuda.Stream(device=prefill)
        self.decode_stream = torch.cuda.Stream(device=decode)
        with torch.cuda.stream(self.prefill_stream):
            self.embed_p = nn.Embedding(vocab, dim, device=prefill)
            self.kv_p = nn.Linear(dim, 2 * dim, device=prefill)
        with torch.cuda.stream(self.decode_stream):
            self.embed_d = nn.Embedding(vocab, dim, device=decode)
            self.kv_d = nn.Linear(dim, 2 * dim, device=decode)
            self.out_d = nn.Linear(dim, vocab, device=decode)

    @torch.no_grad()
    def prefill(self, prompt: List[int]) -> Handoff:
        if not prompt:
            raise ValueError("empty prompt")
        with torch.cuda.stream(self.prefill_stream), torch.cuda.stream(self.decode_stream):
            ids = torch.tensor(prompt, device=self.prefill_device)
            hidden = self.embed_p(ids)
            k, v = self.kv_p(hidden).chunk(2, dim=-1)
            return Handoff(
                keys=k.contiguous().to(self.decode_device, non_blocking=True),
                values=v.contiguous().to(self.decode_device, non_blocking=True),
                last=hidden[-1].to(self.decode_device, non_blocking=True),
            )

    @torch.no_grad()
    def decode(self, state: Handoff, steps: int) -> List[int]:
        tokens: List[int] = []
        keys, values, query = state.keys, state.values, state.last
        with torch.cuda.stream(self.decode_stream):
            for _ in range(steps):
                attn = torch.softmax(keys @ query * keys.shape[-1] ** -0.5, dim=0)
                logits = self.out_d(attn @ values)
                token = logits.argmax(dim=-1, keepdim=True)
                tokens.append(int(token.item()))
                hidden = self.embed_d(token)
                k, v = self.kv_d(hidden).chunk(2, dim=-1)
                keys = torch.cat([keys, k])
                values = torch.cat([values, v])
                query = hidden[0]
        return tokens


def serve(engine: PrefillDecode, prompts: List[List[int]], steps: int) -> List[List[int]]:
    results: List[List[int]] = []
    ahead = None
    for prompt in prompts:
        state = engine.prefill(prompt)
        if ahead is not None:
            results.append(engine.decode(ahead, steps))
        ahead = state
    if ahead is not None:
        results.append(engine.decode(ahead, steps))
    return results
