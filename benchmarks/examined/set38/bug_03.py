"""Run a large block stack with weights kept in pinned memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cuda")
_streams = {}


def get_offload_stream(device):
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device=device, priority=0)
    return _streams[device]


def cast_to(t, device, dtype, stream):
    if t is None:
        return None
    with torch.cuda.stream(stream):
        r = torch.empty_like(t, dtype=dtype, device=device)
        r.copy_(t, non_blocking=True)
    return r


def cast_bias_weight(module, like):
    stream = get_offload_stream(like.device)
    weight = cast_to(module.weight, like.device, like.dtype, stream)
    bias = cast_to(module.bias, like.device, like.dtype, stream)
    torch.cuda.current_stream(like.device).wait_stream(stream)
    return weight, bias


class LinearLowVram(nn.Linear):
    def reset_parameters(self):
        nn.init.normal_(self.weight, std=0.01)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x):
        weight, bias = cast_bias_weight(self, x)
        return F.linear(x, weight, bias)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.up = LinearLowVram(dim, dim)
        self.down = LinearLowVram(dim, dim)

    def forward(self, x):
        h = F.gelu(self.up(self.norm(x)))
        return x + self.down(h)


class Denoiser(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def pin(self):
        for p in self.parameters():
            p.data = p.data.pin_memory()
            p.requires_grad_(False)
        return self

    def forward(self, x, sigma):
        x = x / (1.0 + sigma)
        for blk in self.blocks:
            x = blk(x)
        return x


@torch.inference_mode()
def sample(model, latent, sigmas):
    for cur, nxt in zip(sigmas[:-1], sigmas[1:]):
        denoised = model(latent, cur)
        d = (latent - denoised) / max(cur, 1e-4)
        latent = latent + d * (nxt - cur)
    return latent


def main():
    torch.manual_seed(3)
    model = Denoiser(4096, 12).pin()
    latent = torch.randn(2048, 4096, device=DEVICE)
    sigmas = [10.0, 6.0, 3.0, 1.5, 0.5, 0.0]
    out = sample(model, latent, sigmas)
    print(out.std().item())


if __name__ == "__main__":
    main()
