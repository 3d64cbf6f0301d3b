import torch
import torch.nn as nn


class CacheState:
    def __init__(self, max_len, bs, dim):
        self.k = torch.zeros(bs, max_len, dim, device="cuda")
        self.v = torch.zeros(bs, max_len, dim, device="cuda")
        self.length = 1

    def append(self, k, v):
        self.k[:, self.length - 1].copy_(k)
        self.v[:, self.length - 1].copy_(v)
        return self.k[:, : self.length], self.v[:, : self.length]


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys, values = cache.append(k, v)
        w = torch.softmax(torch.einsum("bd,btd->bt", q, keys) / q.shape[-1] ** 0.5, dim=-1)
        return self.out(torch.einsum("bt,btd->bd", w, values))


class GraphDecoder:
    def __init__(self, bs=8, dim=256, max_len=128):
        self.layer = Attention(dim).cuda().eval()
        self.cache = CacheState(max_len, bs, dim)
        self.x = torch.zeros(bs, dim, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self.layer(self.x, self.cache)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.layer(self.x, self.cache)

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()
        self.cache.length += 1
        return self.y.clone()


@torch.inference_mode()
def main():
    dec = GraphDecoder()
    x = torch.randn(8, 256, device="cuda")
    for _ in range(100):
        x = torch.nn.functional.layer_norm(x + dec.step(x), (256,))
    print(x.norm().item(), dec.cache.length)


if __name__ == "__main__":
    main()
