"""Speculative decoding where a draft model on its own stream proposes token lists."""
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        hidden, _ = self.rnn(self.embed(ids))
        return self.head(hidden)


class Draft:
    def __init__(self, model, width):
        self.model = model
        self.width = width
        self.stream = torch.cuda.Stream()
        self.context = torch.zeros(1, 4096, dtype=torch.int64, device="cuda")
        self.length = 0
        self.stream.wait_stream(torch.cuda.current_stream())

    def sync_context(self, tokens):
        with torch.cuda.stream(self.stream):
            fresh = torch.tensor(tokens[self.length :], dtype=torch.int64, device="cuda")
            self.context[0, self.length : len(tokens)] = fresh
        self.length = len(tokens)

    def propose(self):
        with torch.cuda.stream(self.stream):
            end = self.length
            for _ in range(self.width):
                logits = self.model(self.context[:, :end])
                self.context[0, end] = logits[0, -1].argmax()
                end += 1
            return self.context[0, self.length : end].tolist()


class Verifier:
    def __init__(self, model):
        self.model = model

    def accept(self, tokens, proposal):
        ids = torch.tensor([tokens + proposal], device="cuda")
        target = self.model(ids)[0, len(tokens) - 1 :].argmax(-1).tolist()
        kept = 0
        while kept < len(proposal) and proposal[kept] == target[kept]:
            kept += 1
        return proposal[:kept] + [target[kept]]


@torch.inference_mode()
def generate(prompt, max_tokens=128):
    torch.manual_seed(0)
    big = LanguageModel(5000, 512).cuda().eval()
    small = LanguageModel(5000, 64).cuda().eval()
    draft, verifier = Draft(small, width=4), Verifier(big)
    tokens = list(prompt)
    while len(tokens) < max_tokens:
        draft.sync_context(tokens)
        tokens += verifier.accept(tokens, draft.propose())
    return tokens


if __name__ == "__main__":
    print(generate([1, 5, 9]))
