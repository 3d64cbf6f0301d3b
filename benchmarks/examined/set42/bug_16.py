"""Low-VRAM linear layers whose weights are cast on rotating offload streams."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_STREAMS = 2
_streams = {}
_counters = {}


def get_offload_stream(device):
    """Next offload stream of the device; it starts behind the current stream."""
    if device not in _streams:
        _streams[device] = [torch.cuda.Stream(device) for _ in range(NUM_STREAMS)]
        _counters[device] = 0
    index = _counters[device]
    _counters[device] = (index + 1) % NUM_STREAMS
    stream = _streams[device][index]
    stream.wait_stream(torch.cuda.current_stream(device))
    return stream


def sync_stream(device, stream):
    torch.cuda.current_stream(device).wait_stream(stream)


def cast_to(tensor, dtype, device, stream):
    with torch.cuda.stream(stream):
        moved = tensor.to(device, non_blocking=True)
        return moved.to(dtype)


class OffloadContext:
    def __init__(self, device, dtype):
        self.device = device
        self.dtype = dtype

    def bring(self, module):
        stream = get_offload_stream(self.device)
        weight = cast_to(module.weight, self.dtype, self.device, stream)
        bias = None
        if module.bias is not None:
            bias = cast_to(module.bias, self.dtype, self.device, stream)
        sync_stream(self.device, get_offload_stream(self.device))
        return weight, bias, stream

    def give_back(self, stream):
        stream.wait_stream(torch.cuda.current_stream(self.device))


class CastLinear(nn.Linear):
    def stash(self):
        self.weight = nn.Parameter(self.weight.data.half().pin_memory(), requires_grad=False)
        self.bias = nn.Parameter(self.bias.data.half().pin_memory(), requires_grad=False)
        return self

    def forward(self, x):
        ctx = OffloadContext(x.device, x.dtype)
        weight, bias, stream = ctx.bring(self)
        y = F.linear(x, weight, bias)
        ctx.give_back(stream)
        return y


class UNetLike(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([CastLinear(width, width).stash() for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


@torch.no_grad()
def sample(model, steps, device):
    x = torch.randn(64, 2048, device=device)
    for i in range(steps):
        x = 0.95 * model(x)
    return x


def main():
    model = UNetLike(2048, 10)
    x = sample(model, 6, torch.device("cuda", 0))
    print(x.isnan().any().item(), x.std().item())


if __name__ == "__main__":
    main()
