"""Low-VRAM mode: weights are cast on offload streams right before each op needs them."""
import torch
from torch import nn
import torch.nn.functional as F

NUM_STREAMS = 2


class OffloadStreams:
    def __init__(self, device, count=NUM_STREAMS):
        self.streams = [torch.cuda.Stream(device) for _ in range(count)]
        self.turn = 0

    def next(self):
        self.turn = (self.turn + 1) % len(self.streams)
        return self.streams[self.turn]


def cast_to(weight, dtype, device, stream):
    with torch.cuda.stream(stream):
        return weight.to(device, non_blocking=True).to(dtype)


def cast_bias_weight(module, x, pool):
    stream = pool.next()
    weight = cast_to(module.weight, x.dtype, x.device, stream)
    bias = cast_to(module.bias, x.dtype, x.device, stream)
    torch.cuda.current_stream(x.device).wait_stream(stream)
    return weight, bias


class OffloadedLinear(nn.Linear):
    def __init__(self, in_features, out_features, pool):
        super().__init__(in_features, out_features)
        self.weight.data = self.weight.data.pin_memory()
        self.bias.data = self.bias.data.pin_memory()
        self.pool = pool

    def forward(self, x):
        weight, bias = cast_bias_weight(self, x, self.pool)
        return F.linear(x, weight, bias)


class Denoiser(nn.Module):
    def __init__(self, width, depth, device):
        super().__init__()
        pool = OffloadStreams(device)
        self.blocks = nn.ModuleList(OffloadedLinear(width, width, pool) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = F.silu(block(x)) + x
        return x


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    model = Denoiser(4096, 24, device)
    x = torch.randn(4096, 4096, device=device, dtype=torch.float16)
    for _ in range(8):
        x = F.layer_norm(model(x), (4096,))
    print(x.float().std().item())


if __name__ == "__main__":
    main()
