from dataclasses import dataclass
from typing import List

import torch
from torch import nn


@dataclass
class Verified:
    accepted: List[int]
    tokens: List[List[int]]


class SpeculativeDecoder:
    """A small draft model proposes, the target verifies on a stream of its own."""

    def __init__(self, vocab=8000, dim=256, gamma=4):
        self.gamma = gamma
        self.draft = nn.Sequential(nn.Embedding(vocab, dim // 4), nn.Linear(dim // 4, vocab)).cuda()
        self.target = nn.Sequential(nn.Embedding(vocab, dim), nn.GELU(), nn.Linear(dim, vocab)).cuda()
        self.target_stream = torch.cuda.Stream()
        self.target_stream.wait_stream(torch.cuda.current_stream())

    def propose(self, last: torch.Tensor) -> torch.Tensor:
        cols = [last]
        for _ in range(self.gamma):
            cols.append(self.draft(cols[-1]).argmax(-1))
        return torch.stack(cols, dim=1)

    def verify(self, window: torch.Tensor) -> Verified:
        drafted = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.target_stream):
            self.target_stream.wait_event(drafted)
            expected = self.target(window[:, :-1]).argmax(-1)
            match = (expected == window[:, 1:]).int().cumprod(dim=1)
            n = match.sum(dim=1)
            return Verified(n.tolist(), expected.tolist())

    def generate(self, prompt: List[int], rounds: int) -> List[List[int]]:
        streams = [[t] for t in prompt]
        for _ in range(rounds):
            last = torch.tensor([s[-1] for s in streams]).cuda()
            window = self.propose(last)
            out = self.verify(window)
            for s, n, exp in zip(streams, out.accepted, out.tokens):
                s.extend(exp[:min(n + 1, len(exp))])
        return streams


@torch.inference_mode()
def main():
    dec = SpeculativeDecoder()
    for seq in dec.generate([1, 2, 3, 4], rounds=16):
        print(len(seq), seq[:8])


if __name__ == "__main__":
    main()
