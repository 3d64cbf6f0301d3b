"""Sparse attention layer that spreads its small projections over an auxiliary stream."""
import torch
import torch.nn as nn


class StreamPair:
    def __init__(self):
        self.aux = torch.cuda.Stream()
        self.inputs_ready = torch.cuda.Event()
        self.compressed_ready = torch.cuda.Event()
        self.weights_ready = torch.cuda.Event()


class Compressor(nn.Module):
    def __init__(self, dim, latent):
        super().__init__()
        self.down = nn.Linear(dim, latent, bias=False)
        self.gate = nn.Parameter(torch.ones(latent))

    def forward(self, hidden):
        return self.down(hidden).mul_(self.gate)


class SparseAttention(nn.Module):
    def __init__(self, dim, latent, heads, slots, streams: StreamPair):
        super().__init__()
        self.heads = heads
        self.latent = latent
        self.streams = streams
        self.compressor = Compressor(dim, latent)
        self.indexer = nn.Linear(dim, latent, bias=False)
        self.q_proj = nn.Linear(dim, heads * latent, bias=False)
        self.out = nn.Linear(heads * latent, dim, bias=False)
        self.register_buffer("cache", torch.zeros(slots, latent))

    def forward(self, hidden, slot_mapping, topk):
        s = self.streams
        main = torch.cuda.current_stream()
        s.inputs_ready.record(main)
        s.aux.wait_event(s.inputs_ready)
        hidden.record_stream(s.aux)

        with torch.cuda.stream(s.aux):
            compressed = self.compressor(hidden)
            s.compressed_ready.record(s.aux)

        q = self.q_proj(hidden).view(-1, self.heads, self.latent)
        main.wait_event(s.compressed_ready)
        self.cache.index_copy_(0, slot_mapping, compressed)
        del compressed

        with torch.cuda.stream(s.aux):
            weights = self.indexer(hidden)
            s.weights_ready.record(s.aux)

        logits = torch.einsum("thl,sl->ths", q, self.cache)
        main.wait_event(s.weights_ready)
        weights.record_stream(main)
        bias = (weights @ self.cache.t()).unsqueeze(1)
        keep = torch.zeros_like(bias).scatter_(-1, bias.topk(topk, dim=-1).indices, 1.0)
        probs = torch.softmax(logits.masked_fill(keep == 0, float("-inf")), dim=-1)
        ctx = torch.einsum("ths,sl->thl", probs, self.cache).reshape(hidden.shape[0], -1)
        return self.out(ctx)


class Decoder(nn.Module):
    def __init__(self, layers=8, dim=2048, latent=512, heads=8, slots=4096):
        super().__init__()
        streams = StreamPair()
        self.layers = nn.ModuleList(SparseAttention(dim, latent, heads, slots, streams) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    @torch.no_grad()
    def forward(self, hidden, slot_mapping, topk=64):
        for norm, layer in zip(self.norms, self.layers):
            hidden = hidden + layer(norm(hidden), slot_mapping, topk)
        return hidden


class Engine:
    def __init__(self, device="cuda"):
        self.device = device
        self.model = Decoder().to(device).eval()
        torch.cuda.synchronize()
        self.position = 0

    def step(self, hidden):
        tokens = hidden.shape[0]
        slots = (torch.arange(tokens, device=self.device) + self.position) % 4096
        self.position += tokens
        return self.model(hidden, slots)


def main():
    engine = Engine()
    hidden = torch.randn(256, 2048, device="cuda")
    for _ in range(32):
        hidden = engine.step(hidden)
    print(float(hidden.norm()))


if __name__ == "__main__":
    main()
