"""Decoding with a captured graph; a value head scores the hidden states on the side."""
import torch
from torch import nn


class Transformer(nn.Module):
    def __init__(self, vocab, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 4 * hidden), nn.GELU(),
                          nn.Linear(4 * hidden, hidden))
            for _ in range(layers)
        )
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x), x


class DecodeGraphRunner:
    def __init__(self, model, max_batch, stream):
        self.model = model
        self.stream = stream
        self.input_ids = torch.zeros(max_batch, dtype=torch.int64, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode():
            with torch.cuda.stream(self.stream):
                for _ in range(3):
                    self.model(self.input_ids)
            self.stream.synchronize()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.next_token_logits, self.hidden_states = self.model(self.input_ids)

    def execute(self, ids):
        batch = ids.shape[0]
        self.input_ids[:batch].copy_(ids)
        self.graph.replay()
        return self.next_token_logits[:batch], self.hidden_states[:batch]


class ValueScorer:
    """Critic of several layers; its scores are fetched after the rollout."""

    def __init__(self, hidden, device="cuda"):
        self.stream = torch.cuda.Stream()
        self.net = nn.Sequential(
            nn.Linear(hidden, 8192), nn.GELU(), nn.Linear(8192, 8192), nn.GELU(),
            nn.Linear(8192, 1),
        ).to(device).eval()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.scores = []

    def submit(self, hidden_states, producer):
        self.stream.wait_stream(producer)
        with torch.cuda.stream(self.stream):
            self.scores.append(self.net(hidden_states).squeeze(-1))

    def collect(self):
        with torch.cuda.stream(self.stream):
            values = torch.stack(self.scores)
            self.scores = []
            return values.cpu()


class RolloutEngine:
    def __init__(self, vocab=32000, hidden=1024, layers=8, max_batch=64):
        self.model = Transformer(vocab, hidden, layers).cuda().eval()
        self.forward_stream = torch.cuda.Stream()
        self.runner = DecodeGraphRunner(self.model, max_batch, self.forward_stream)
        self.scorer = ValueScorer(hidden)

    @torch.inference_mode()
    def rollout(self, prompt, steps):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            prompt.record_stream(self.forward_stream)
            tokens = prompt
            history = []
            for _ in range(steps):
                logits, hidden = self.runner.execute(tokens)
                self.scorer.submit(hidden, self.forward_stream)
                tokens = logits.argmax(dim=-1)
                history.append(tokens)
            sequence = torch.stack(history).cpu()
        return sequence, self.scorer.collect()


if __name__ == "__main__":
    engine = RolloutEngine()
    start = torch.randint(0, 32000, (64,), device="cuda")
    for _ in range(2):
        ids, values = engine.rollout(start, steps=32)
    print(ids.shape, values.shape)
