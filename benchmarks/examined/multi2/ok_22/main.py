import torch
from torch import nn

from streaming import stream_layers


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.heads = dim // 128

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(y.transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, dim=4096, depth=32):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def main():
    model = Decoder().eval()
    stream_layers(list(model.layers))
    x = torch.randn(4, 1024, 4096, dtype=torch.float16, device="cuda")
    for _ in range(5):
        x = torch.nn.functional.layer_norm(model(x), (4096,))
    print(x.float().std().item())


if __name__ == "__main__":
    main()
