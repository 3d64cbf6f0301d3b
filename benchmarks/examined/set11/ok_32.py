"""Small helpers that build device tensors from Python lists without stalling the host."""
from dataclasses import dataclass
from typing import List, Sequence

import torch


def async_tensor_h2d(data: Sequence, dtype: torch.dtype, device: torch.device, pin_memory: bool = True) -> torch.Tensor:
    """The pinned temporary goes back to the caching host allocator, which keeps it until the copy is over."""
    t = torch.tensor(data, dtype=dtype, pin_memory=pin_memory, device="cpu")
    return t.to(device=device, non_blocking=True)


@dataclass
class SamplingParams:
    temperature: float
    top_k: int
    presence_penalty: float


@dataclass
class SamplingTensors:
    temperature: torch.Tensor
    top_k: torch.Tensor
    presence: torch.Tensor

    @classmethod
    def from_params(cls, params: List[SamplingParams], device: torch.device) -> "SamplingTensors":
        return cls(
            temperature=async_tensor_h2d([max(p.temperature, 1e-5) for p in params], torch.float32, device),
            top_k=async_tensor_h2d([p.top_k for p in params], torch.int64, device),
            presence=async_tensor_h2d([p.presence_penalty for p in params], torch.float32, device),
        )


class Sampler(torch.nn.Module):
    def __init__(self, vocab_size: int, device: torch.device):
        super().__init__()
        self.vocab_size = vocab_size
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)

    def _seen(self, token_lists: List[List[int]]) -> torch.Tensor:
        longest = max(len(t) for t in token_lists)
        rows = [t + [self.vocab_size] * (longest - len(t)) for t in token_lists]
        tokens = async_tensor_h2d(rows, torch.int64, self.device)
        seen = torch.zeros(len(rows), self.vocab_size + 1, device=self.device)
        return seen.scatter_(1, tokens, 1.0)[:, : self.vocab_size]

    @torch.inference_mode()
    def forward(self, logits: torch.Tensor, params: List[SamplingParams], output_tokens: List[List[int]]) -> torch.Tensor:
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.copy_stream):
            tensors = SamplingTensors.from_params(params, self.device)
        logits = logits.float()
        seen = self._seen(output_tokens)
        current.wait_stream(self.copy_stream)
        for t in (tensors.temperature, tensors.top_k, tensors.presence):
            t.record_stream(current)
        logits = logits - tensors.presence.unsqueeze(1) * seen
        logits = logits / tensors.temperature.unsqueeze(1)
        ordered = logits.sort(dim=-1, descending=True).values
        kth = ordered.gather(1, (tensors.top_k - 1).clamp_(0, self.vocab_size - 1).unsqueeze(1))
        probs = logits.masked_fill(logits < kth, float("-inf")).softmax(-1)
        noise = torch.empty_like(probs).exponential_()
        return probs.div_(noise).argmax(-1)
