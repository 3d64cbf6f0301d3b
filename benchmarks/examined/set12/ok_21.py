from dataclasses import dataclass, field
from typing import List

import torch


@dataclass
class GenerateStream:
    request_id: int
    max_new_tokens: int
    eos_token_id: int
    tokens: List[int] = field(default_factory=list)
    finished: bool = False

    def update(self, new_tokens):
        for token in new_tokens:
            self.tokens.append(token)
            if token == self.eos_token_id or len(self.tokens) >= self.max_new_tokens:
                self.finished = True
                return


class SpeculativeSampler:
    def __init__(self, num_speculative, vocab_size):
        self.num_speculative = num_speculative
        self.vocab_size = vocab_size

    def rejection_sample(self, draft_tokens, draft_probs, target_probs):
        batch = draft_tokens.shape[0]
        picked_draft = draft_probs.gather(-1, draft_tokens.unsqueeze(-1)).squeeze(-1)
        picked_target = (
            target_probs[:, :-1].gather(-1, draft_tokens.unsqueeze(-1)).squeeze(-1)
        )
        accept = torch.rand_like(picked_draft) < picked_target / picked_draft.clamp_min(1e-8)
        emitted = accept.int().cumprod(dim=-1).sum(dim=-1) + 1
        rows = torch.arange(batch, device=draft_tokens.device)
        last = target_probs[rows, emitted - 1].multinomial(1)
        output = torch.cat((draft_tokens, torch.zeros_like(last)), dim=-1)
        output[rows, emitted - 1] = last.squeeze(-1)
        return output, emitted


class NormalOutputDispatcher:
    def __init__(self, sampler):
        self.sampler = sampler

    def dispatch(self, streams, draft_tokens, draft_probs, target_probs):
        output_d, emitted_d = self.sampler.rejection_sample(
            draft_tokens, draft_probs, target_probs
        )
        output_h = output_d.to("cpu", non_blocking=True)
        emitted_h = emitted_d.cpu()
        for i, stream in enumerate(streams):
            n = int(emitted_h[i])
            stream.update(output_h[i, :n].tolist())
        return [s for s in streams if not s.finished]
