import torch
import torch.nn.functional as F
from torch import nn


class RotaryTable:
    def __init__(self, max_len, dim, device):
        inv = 1.0 / (10000 ** (torch.arange(0, dim, 2, device=device).float() / dim))
        freqs = torch.outer(torch.arange(max_len, device=device).float(), inv)
        self.cos, self.sin = freqs.cos(), freqs.sin()

    def rotate(self, x, position):
        cos = self.cos.index_select(0, position)
        sin = self.sin.index_select(0, position)
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, hidden, heads, max_len, rope):
        super().__init__()
        self.heads, self.dim, self.rope = heads, hidden // heads, rope
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.o = nn.Linear(hidden, hidden, bias=False)
        self.register_buffer("k", torch.zeros(heads, max_len, self.dim))
        self.register_buffer("v", torch.zeros(heads, max_len, self.dim))

    def forward(self, x, position, mask):
        q, k, v = self.qkv(x).view(3, self.heads, 1, self.dim).unbind(0)
        q, k = self.rope.rotate(q, position), self.rope.rotate(k, position)
        self.k.index_copy_(1, position, k)
        self.v.index_copy_(1, position, v)
        y = F.scaled_dot_product_attention(q[None], self.k[None], self.v[None], attn_mask=mask)
        return x + self.o(y.reshape(1, -1))


class GraphDecoder:
    def __init__(self, vocab, hidden, heads, n_layers, max_len):
        rope = RotaryTable(max_len, hidden // heads, "cuda")
        self.embed = nn.Embedding(vocab, hidden).cuda().half()
        self.layers = nn.ModuleList(Layer(hidden, heads, max_len, rope) for _ in range(n_layers)).cuda().half()
        self.token = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.position = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.slots = torch.arange(max_len, device="cuda")
        self.graph = None

    def _step(self):
        x = self.embed(self.token)
        mask = (self.slots <= self.position).view(1, 1, 1, -1)
        for layer in self.layers:
            x = layer(x, self.position, mask)
        logits = F.linear(x, self.embed.weight)
        self.token.copy_(logits.argmax(dim=-1))
        self.position.add_(1)

    @torch.inference_mode()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    @torch.inference_mode()
    def generate(self, prompt, n):
        self.position.zero_()
        for tok in prompt:
            self.token.fill_(tok)
            self.graph.replay()
        out = torch.empty(n, dtype=torch.int64, device="cuda")
        for i in range(n):
            out[i].copy_(self.token[0])
            self.graph.replay()
        return out.tolist()
