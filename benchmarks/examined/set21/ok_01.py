from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class DraftMetadata:
    seq_lens: torch.Tensor
    slot_mapping: torch.Tensor


class DraftModel(nn.Module):
    def __init__(self, vocab: int, hidden: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.proj = nn.Linear(2 * hidden, hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, input_ids, positions, hidden_states):
        emb = self.embed(input_ids) + positions.unsqueeze(-1) * 1e-3
        hidden = torch.tanh(self.proj(torch.cat([emb, hidden_states], dim=-1)))
        return hidden, self.head(hidden)


class LLMBaseProposer:
    """Proposes several tokens per request with a small autoregressive head."""

    def __init__(self, model: DraftModel, max_batch: int, hidden: int, num_speculative_tokens: int, block_size: int):
        device = torch.device("cuda")
        self.model = model.to(device).eval()
        self.num_speculative_tokens = num_speculative_tokens
        self.block_size = block_size
        self.input_ids = torch.zeros(max_batch, dtype=torch.long, device=device)
        self.positions = torch.zeros(max_batch, dtype=torch.long, device=device)
        self.hidden_states = torch.zeros(max_batch, hidden, device=device)

    @torch.inference_mode()
    def propose(self, next_token_ids, target_positions, target_hidden, meta: DraftMetadata) -> torch.Tensor:
        batch_size = next_token_ids.shape[0]
        input_ids = next_token_ids
        positions = target_positions
        hidden_states = target_hidden
        drafts = []
        for _ in range(self.num_speculative_tokens):
            positions = positions + 1
            meta.seq_lens += 1
            meta.slot_mapping.copy_(positions % self.block_size)

            self.input_ids[:batch_size] = input_ids
            self.positions[:batch_size] = positions
            self.hidden_states[:batch_size] = hidden_states
            hidden_states, logits = self.model(
                self.input_ids[:batch_size],
                self.positions[:batch_size],
                self.hidden_states[:batch_size],
            )
            input_ids = logits.argmax(dim=-1)
            drafts.append(input_ids)
        return torch.stack(drafts, dim=1)


def run(steps: int = 64) -> list:
    device = torch.device("cuda")
    batch, hidden = 16, 512
    proposer = LLMBaseProposer(DraftModel(32000, hidden), 64, hidden, 5, 16)
    tokens = torch.randint(0, 32000, (batch,), device=device)
    positions = torch.full((batch,), 127, dtype=torch.long, device=device)
    target_hidden = torch.randn(batch, hidden, device=device)
    meta = DraftMetadata(positions + 1, torch.zeros(batch, dtype=torch.long, device=device))
    accepted = []
    for _ in range(steps):
        drafts = proposer.propose(tokens, positions, target_hidden, meta)
        tokens = drafts[:, -1]
        positions = positions + proposer.num_speculative_tokens
        accepted.append(drafts.tolist())
    return accepted
