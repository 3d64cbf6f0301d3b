from dataclasses import dataclass
from typing import Dict, List, Optional

import torch


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_k: int = 0
    logit_bias: Optional[Dict[int, float]] = None


class SlotSampler:
    """Per-slot sampling state on the device; updates never block the host."""

    def __init__(self, num_slots, vocab, device="cuda"):
        self.vocab = vocab
        self.device = torch.device(device)
        self._temperature = torch.ones(num_slots, device=self.device)
        self._top_k = torch.zeros(num_slots, dtype=torch.int64, device=self.device)
        self._logit_bias = torch.zeros((num_slots, vocab), device=self.device)

    def _upload(self, values, dtype):
        return torch.tensor(values, dtype=dtype, pin_memory=True).to(
            self.device, non_blocking=True
        )

    def reset_slot(self, slot, params: SamplingParams):
        self._logit_bias[slot].zero_()
        if params.logit_bias:
            ids = list(params.logit_bias)
            if any(not 0 <= t < self.vocab for t in ids):
                raise ValueError("logit_bias contains out-of-vocab token ids")
            token_ids = self._upload(ids, torch.long)
            bias = self._upload([params.logit_bias[t] for t in ids], torch.float32)
            self._logit_bias[slot].index_copy_(0, token_ids, bias)

    def prepare(self, slots: List[int], params: List[SamplingParams]):
        index = self._upload(slots, torch.long)
        temperature = self._upload([p.temperature for p in params], torch.float32)
        top_k = self._upload([p.top_k for p in params], torch.long)
        self._temperature.index_copy_(0, index, temperature)
        self._top_k.index_copy_(0, index, top_k)
        return index

    def sample(self, logits, index):
        logits = logits.float() + self._logit_bias[index]
        logits /= self._temperature[index].clamp_min(1e-5).unsqueeze(-1)
        k = self._top_k[index]
        ranks = logits.argsort(dim=-1, descending=True).argsort(dim=-1)
        limit = torch.where(k > 0, k, torch.full_like(k, self.vocab)).unsqueeze(-1)
        logits.masked_fill_(ranks >= limit, float("-inf"))
        return torch.multinomial(logits.softmax(-1), 1).squeeze(-1)


def decode_step(sampler, model, slots, params, input_ids):
    index = sampler.prepare(slots, params)
    logits = model(input_ids)
    return sampler.sample(logits, index)
