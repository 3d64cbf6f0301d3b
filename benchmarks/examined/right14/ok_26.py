"""Speculative decoding with a draft model on its own stream."""
from __future__ import annotations

import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(self.embed(tokens))[0])


class Speculator:
    def __init__(self, target: TinyLM, draft: TinyLM, lookahead: int = 4) -> None:
        self.target = target.eval()
        self.draft = draft.eval()
        self.k = lookahead
        self.device = next(target.parameters()).device
        self.draft_stream = torch.cuda.Stream(self.device)

    def _propose(self, history: list[int]) -> torch.Tensor:
        tokens = torch.tensor([history], device=self.device)
        for _ in range(self.k):
            nxt = self.draft(tokens)[:, -1].argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, nxt], dim=1)
        return tokens

    @torch.inference_mode()
    def generate(self, prompt: list[int], limit: int) -> list[int]:
        history = list(prompt)
        goal = len(prompt) + limit
        main = torch.cuda.current_stream(self.device)
        self.draft_stream.wait_stream(main)
        while len(history) < goal:
            with torch.cuda.stream(self.draft_stream):
                tokens = self._propose(history)
            proposed = self.draft_stream.record_event()
            prefix = torch.tensor([history], device=self.device)
            base = self.target(prefix)[:, -1].argmax(-1)
            main.wait_event(proposed)
            logits = self.target(tokens)[:, len(history) - 1:]
            choice = logits.argmax(-1)
            guess = tokens[:, len(history):]
            agree = (choice[:, :-1] == guess).long().cumprod(-1).sum()
            packed = torch.cat([agree.view(1), base, choice[0], guess[0]])
            values = packed.tolist()
            accepted, first = values[0], values[1]
            picks = values[2:3 + self.k]
            if accepted == 0:
                history.append(first)
            else:
                history.extend(values[3 + self.k:3 + self.k + accepted])
                history.append(picks[accepted])
        return history[:goal]


def main() -> None:
    device = torch.device("cuda:0")
    torch.manual_seed(0)
    spec = Speculator(TinyLM(1000, 256).to(device), TinyLM(1000, 64).to(device))
    for prompt in ([1, 2, 3], [7, 7, 7, 7]):
        print(spec.generate(prompt, 32))


if __name__ == "__main__":
    main()
