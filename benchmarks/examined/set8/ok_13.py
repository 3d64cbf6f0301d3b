from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class SamplingTensors:
    temperatures: torch.Tensor
    top_ps: torch.Tensor
    presence_penalties: torch.Tensor
    output_tokens: torch.Tensor

    @classmethod
    def from_lists(cls, temperatures, top_ps, presence_penalties, output_tokens,
                   vocab_size, device, dtype):
        max_len = max((len(t) for t in output_tokens), default=1) or 1
        padded = [t + [vocab_size] * (max_len - len(t)) for t in output_tokens]
        temperatures_t = torch.tensor(temperatures, device="cpu", dtype=dtype, pin_memory=True)
        top_ps_t = torch.tensor(top_ps, device="cpu", dtype=dtype, pin_memory=True)
        presence_t = torch.tensor(presence_penalties, device="cpu", dtype=dtype, pin_memory=True)
        output_t = torch.tensor(padded, device="cpu", dtype=torch.long, pin_memory=True)
        return cls(
            temperatures=temperatures_t.to(device=device, non_blocking=True),
            top_ps=top_ps_t.to(device=device, non_blocking=True),
            presence_penalties=presence_t.to(device=device, non_blocking=True),
            output_tokens=output_t.to(device=device, non_blocking=True),
        )


class Sampler(nn.Module):

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self._copy_stream = torch.cuda.Stream()

    def forward(self, embedding, hidden_states, metadata):
        with torch.cuda.stream(self._copy_stream):
            sampling_tensors = SamplingTensors.from_lists(
                metadata.temperatures, metadata.top_ps, metadata.presence_penalties,
                metadata.output_tokens, self.vocab_size, hidden_states.device,
                hidden_states.dtype)

        logits = torch.matmul(hidden_states, embedding.t())
        main_stream = torch.cuda.current_stream()
        main_stream.wait_stream(self._copy_stream)
        for tensor in vars(sampling_tensors).values():
            tensor.record_stream(main_stream)

        logits = _apply_penalties(logits, sampling_tensors, self.vocab_size)
        logits.div_(sampling_tensors.temperatures.unsqueeze(1))
        logits = _apply_top_p(logits, sampling_tensors.top_ps)
        return torch.argmax(torch.softmax(logits, dim=-1), dim=-1)


def _apply_penalties(logits, t, vocab_size):
    counts = torch.zeros(logits.shape[0], vocab_size + 1, dtype=torch.long, device=logits.device)
    counts.scatter_add_(1, t.output_tokens, torch.ones_like(t.output_tokens))
    mask = counts[:, :vocab_size] > 0
    return logits - t.presence_penalties.unsqueeze(1) * mask


def _apply_top_p(logits, top_ps):
    sorted_logits, idx = logits.sort(dim=-1)
    cum = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
    drop = cum <= 1 - top_ps.unsqueeze(1)
    drop[:, -1] = False
    sorted_logits.masked_fill_(drop, float("-inf"))
    return torch.empty_like(logits).scatter_(1, idx, sorted_logits)
