"""Sampler that draws its exponential noise on a helper stream while the logits are produced."""
import torch
from torch import nn

_STREAMS = {}


def noise_stream(device):
    key = torch.device(device)
    if key not in _STREAMS:
        _STREAMS[key] = torch.cuda.Stream(key)
    return _STREAMS[key]


class NoiseSource:
    def __init__(self, device, seed=0):
        self.device = torch.device(device)
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.row_generators = {}

    def set_row_seed(self, row, seed):
        self.row_generators[row] = torch.Generator(device=self.device).manual_seed(seed)

    def draw(self, rows, vocab):
        stream = noise_stream(self.device)
        with torch.cuda.stream(stream):
            q = torch.empty(rows, vocab, device=self.device)
            q.exponential_(generator=self.generator)
            for row, gen in self.row_generators.items():
                if row < rows:
                    q[row].exponential_(generator=gen)
        return q, stream


class Sampler:
    def __init__(self, noise, top_k):
        self.noise = noise
        self.top_k = top_k

    def random_sample(self, probs, q):
        return probs.div_(q).argmax(dim=-1)

    def __call__(self, logits, temperature, drawn):
        q, stream = drawn
        scaled = logits / temperature.unsqueeze(-1)
        cut = scaled.topk(self.top_k, dim=-1).values[:, -1:]
        probs = scaled.masked_fill(scaled < cut, -torch.inf).softmax(dim=-1)
        torch.cuda.current_stream().wait_stream(stream)
        return self.random_sample(probs, q)


class DecodeLoop:
    def __init__(self, model, sampler, vocab):
        self.model = model
        self.sampler = sampler
        self.vocab = vocab

    @torch.inference_mode()
    def run(self, tokens, temperature, steps):
        produced = []
        hidden = None
        for _ in range(steps):
            drawn = self.sampler.noise.draw(len(tokens), self.vocab)
            logits, hidden = self.model(tokens, hidden)
            tokens = self.sampler(logits, temperature, drawn)
            produced.append(tokens)
        return torch.stack(produced, dim=1)


class RecurrentLM(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens, hidden):
        hidden = self.cell(self.embed(tokens), hidden)
        return self.out(hidden), hidden


def generate(prompts, steps=256, vocab=151936, width=2048, device="cuda"):
    model = RecurrentLM(vocab, width).to(device).eval()
    noise = NoiseSource(device)
    for row, prompt in enumerate(prompts):
        if "seed" in prompt:
            noise.set_row_seed(row, prompt["seed"])
    first = torch.tensor([p["token"] for p in prompts], device=device)
    heat = torch.tensor([p.get("temperature", 1.0) for p in prompts], device=device)
    loop = DecodeLoop(model, Sampler(noise, 50), vocab)
    return loop.run(first, heat, steps).cpu()
