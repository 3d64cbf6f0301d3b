"""Greedy decoding loop with page-locked token and confidence rows."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Sequence:
    tokens: list = field(default_factory=list)
    scores: list = field(default_factory=list)
    finished: bool = False


class PinnedRow:
    def __init__(self, n, dtype):
        self.tensor = torch.empty(n, dtype=dtype, pin_memory=True)
        self.view = self.tensor.numpy()


class StepReader:
    """Collects everything that the host needs from one step."""

    def __init__(self, max_batch):
        self.tokens = PinnedRow(max_batch, torch.int64)
        self.scores = PinnedRow(max_batch, torch.float32)

    def enqueue(self, tokens, scores):
        n = tokens.shape[0]
        self.tokens.tensor[:n].copy_(tokens, non_blocking=True)
        self.scores.tensor[:n].copy_(scores, non_blocking=True)

    def rows(self, n):
        return self.tokens.view[:n].tolist(), self.scores.view[:n].tolist()


class Generator:
    def __init__(self, vocab=8192, dim=1024, max_batch=128, eos=2):
        self.eos = eos
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)
        for m in (self.embed, self.body, self.head):
            m.cuda().eval()
        self.stream = torch.cuda.Stream()
        self.reader = StepReader(max_batch)
        torch.cuda.synchronize()

    def _step(self, ids):
        h = self.embed(ids)
        logits = self.head(h + self.body(h))
        probs = torch.softmax(logits, dim=-1)
        scores, tokens = probs.max(dim=-1)
        return tokens, scores

    @torch.inference_mode()
    def generate(self, prompts, max_steps=64):
        sequences = [Sequence([p]) for p in prompts]
        n = len(sequences)
        with torch.cuda.stream(self.stream):
            ids = torch.tensor(prompts).pin_memory().to("cuda", non_blocking=True)
            alive = torch.ones(n, dtype=torch.bool, device="cuda")
            for _ in range(max_steps):
                tokens, scores = self._step(ids)
                self.reader.enqueue(tokens, scores)
                alive &= tokens != self.eos
                remaining = alive.sum().item()
                for seq, tok, score in zip(sequences, *self.reader.rows(n)):
                    if seq.finished:
                        continue
                    seq.tokens.append(tok)
                    seq.scores.append(score)
                    seq.finished = tok == self.eos
                if remaining == 0:
                    break
                ids = tokens
        return sequences


def main():
    generator = Generator()
    for _ in range(4):
        out = generator.generate(list(range(3, 67)))
    print(sum(len(s.tokens) for s in out))


if __name__ == "__main__":
    main()
