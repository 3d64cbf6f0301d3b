"""Categorical sampling with the exponential trick; the noise is drawn beside the model."""
import torch
from torch import nn


class TopKTopPSampler:
    def __init__(self, device, temperature=0.8):
        self.device = torch.device(device)
        self.temperature = temperature
        self._noise_stream = torch.cuda.Stream(device=self.device)

    def random_sample(self, probs, generators=None):
        """argmax(p / Exp(1)) draws from the categorical distribution p."""
        with torch.cuda.stream(self._noise_stream):
            q = torch.empty_like(probs)
            if not generators or len(generators) != probs.shape[0]:
                q.exponential_()
            if generators:
                for row, generator in generators.items():
                    q[row].exponential_(generator=generator)
        torch.cuda.current_stream(self.device).wait_stream(self._noise_stream)
        return probs.div_(q).argmax(dim=-1).view(-1)

    def __call__(self, logits, top_k=50, generators=None):
        logits = logits.div(self.temperature)
        kth = logits.topk(top_k, dim=-1).values[:, -1:]
        logits.masked_fill_(logits < kth, float("-inf"))
        return self.random_sample(logits.softmax(dim=-1, dtype=torch.float32), generators)


class Backbone(nn.Module):
    def __init__(self, vocab, hidden, layers, device):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden, device=device)
        self.cells = nn.ModuleList(nn.GRUCell(hidden, hidden, device=device) for _ in range(layers))
        self.lm_head = nn.Linear(hidden, vocab, bias=False, device=device)

    def forward(self, tokens, states):
        x = self.embed(tokens)
        new_states = []
        for cell, state in zip(self.cells, states):
            x = cell(x, state)
            new_states.append(x)
        return self.lm_head(x), new_states


class Generator:
    def __init__(self, vocab=151936, hidden=1024, layers=4, device="cuda"):
        self.device = device
        self.hidden = hidden
        self.layers = layers
        self.model = Backbone(vocab, hidden, layers, device).eval()
        self.sampler = TopKTopPSampler(device)

    @torch.inference_mode()
    def rollout(self, prompt_tokens, steps):
        batch = prompt_tokens.shape[0]
        history = torch.empty(steps, batch, dtype=torch.int64, device=self.device)
        states = [torch.zeros(batch, self.hidden, device=self.device) for _ in range(self.layers)]
        tokens = prompt_tokens
        for step in range(steps):
            logits, states = self.model(tokens, states)
            tokens = self.sampler(logits)
            history[step] = tokens
        return history


if __name__ == "__main__":
    gen = Generator()
    start = torch.zeros(32, dtype=torch.int64, device="cuda")
    print(gen.rollout(start, steps=64).cpu().shape)
