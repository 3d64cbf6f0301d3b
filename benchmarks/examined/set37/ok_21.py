"""Exponential noise for sampling, drawn on a stream of its own while the model runs."""
import torch
from torch import nn


class NoiseSource:
    def __init__(self, device, seed=0):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.generator = torch.Generator(device=self.device)
        self.generator.manual_seed(seed)
        self._consumed = torch.cuda.Event()
        self._noise = None

    def prefetch(self, shape, dtype=torch.float32):
        self.stream.wait_event(self._consumed)
        with torch.cuda.stream(self.stream):
            noise = torch.empty(shape, dtype=dtype, device=self.device)
            self._noise = noise.exponential_(generator=self.generator)

    def sample(self, probs):
        if self._noise is None or self._noise.shape != probs.shape:
            self.prefetch(probs.shape, probs.dtype)
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        tokens = (probs / self._noise).argmax(dim=-1)
        self._consumed.record(current)
        self._noise = None
        return tokens


class RecurrentLM(nn.Module):
    def __init__(self, vocab, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cells = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens, states):
        x = self.embed(tokens)
        out = []
        for cell, state in zip(self.cells, states):
            x = cell(x, state)
            out.append(x)
        return self.head(x), out


class Sampler:
    def __init__(self, noise, temperature):
        self.noise = noise
        self.temperature = temperature

    def __call__(self, logits):
        probs = (logits / self.temperature).softmax(dim=-1, dtype=torch.float32)
        return self.noise.sample(probs)


class Generator:
    def __init__(self, vocab=128256, hidden=1024, layers=4, device="cuda"):
        self.vocab, self.hidden, self.layers, self.device = vocab, hidden, layers, device
        self.model = RecurrentLM(vocab, hidden, layers).to(device).eval()
        self.noise = NoiseSource(device)
        self.sampler = Sampler(self.noise, temperature=0.7)

    @torch.inference_mode()
    def rollout(self, tokens, steps):
        batch = tokens.shape[0]
        states = [torch.zeros(batch, self.hidden, device=self.device) for _ in range(self.layers)]
        history = torch.empty(steps, batch, dtype=torch.int64, device=self.device)
        for step in range(steps):
            self.noise.prefetch((batch, self.vocab))
            logits, states = self.model(tokens, states)
            tokens = self.sampler(logits)
            history[step] = tokens
        return history


if __name__ == "__main__":
    gen = Generator()
    first = torch.zeros(48, dtype=torch.int64, device="cuda")
    print(gen.rollout(first, steps=64).cpu().shape)
