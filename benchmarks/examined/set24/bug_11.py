import math

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(self.norm(x))


class SimpleTransformer(nn.Module):
    def __init__(self, vocab, dim, heads, depth, max_len):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, dim)
        self.embed_pos = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def forward_layers(self, x, start, end):
        for layer in self.layers[start:end]:
            x = layer(x)
        return x


class SimpleTransformerWorkload:
    """Runs layer groups of one forward pass on a rotating set of streams."""

    def __init__(self, batch, seq_len, num_streams, layers_per_group=2):
        self.batch, self.seq_len = batch, seq_len
        self.layers_per_group = layers_per_group
        self.num_streams = num_streams

    def setup(self):
        self.model = SimpleTransformer(32000, 1024, 16, 12, self.seq_len).cuda().eval()
        self._input_ids = torch.randint(0, 32000, (self.batch, self.seq_len), device="cuda")
        self.streams = [torch.cuda.Stream() for _ in range(self.num_streams)]
        torch.cuda.synchronize()

    @torch.no_grad()
    def run_iteration(self):
        model = self.model
        positions = torch.arange(self.seq_len, device="cuda").unsqueeze(0)
        groups = math.ceil(len(model.layers) / self.layers_per_group)
        prev_stream = self.streams[0]
        hidden = None
        for group_idx in range(groups):
            start = group_idx * self.layers_per_group
            end = min(start + self.layers_per_group, len(model.layers))
            fwd_stream = self.streams[group_idx % self.num_streams]
            fwd_stream.wait_stream(prev_stream)
            with torch.cuda.stream(fwd_stream):
                if group_idx == 0:
                    hidden = model.embed_tokens(self._input_ids) + model.embed_pos(positions)
                else:
                    hidden.record_stream(fwd_stream)
                hidden = model.forward_layers(hidden, start, end)
            prev_stream = fwd_stream
        with torch.cuda.stream(prev_stream):
            logits = model.head(hidden)
        torch.cuda.current_stream().wait_stream(prev_stream)
        logits.record_stream(torch.cuda.current_stream())
        return logits

    def run(self, iterations):
        total = torch.zeros((), device="cuda")
        for _ in range(iterations):
            total += self.run_iteration().float().mean()
        return (total / iterations).item()
