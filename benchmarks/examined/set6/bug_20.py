import torch

NUM_STREAMS = 2
STREAMS = {}
stream_counters = {}


def get_offload_stream(device):
    if device not in STREAMS:
        STREAMS[device] = [torch.cuda.Stream(device=device) for _ in range(NUM_STREAMS)]
        stream_counters[device] = 0
    counter = stream_counters[device]
    stream_counters[device] = (counter + 1) % NUM_STREAMS
    return STREAMS[device][counter]


def sync_stream(device, stream):
    if stream is None:
        return
    torch.cuda.current_stream(device).wait_stream(stream)


def cast_to(weight, dtype, device, stream=None):
    if weight is None:
        return None
    if stream is None:
        return weight.to(device=device, dtype=dtype)
    with torch.cuda.stream(stream):
        r = torch.empty_like(weight, dtype=dtype, device=device)
        r.copy_(weight, non_blocking=True)
    return r


def cast_bias_weight(s, input):
    device, dtype = input.device, input.dtype
    offload_stream = get_offload_stream(device) if s.weight.device != device else None
    weight = cast_to(s.weight, dtype, device, offload_stream)
    bias = cast_to(s.bias, dtype, device, offload_stream)
    sync_stream(device, offload_stream)
    return weight, bias


class CastWeightBiasOp:
    comfy_cast_weights = True


class Linear(torch.nn.Linear, CastWeightBiasOp):
    def reset_parameters(self):
        return None

    def forward_comfy_cast_weights(self, input):
        weight, bias = cast_bias_weight(self, input)
        return torch.nn.functional.linear(input, weight, bias)

    def forward(self, input):
        if self.comfy_cast_weights:
            return self.forward_comfy_cast_weights(input)
        return super().forward(input)


class LayerNorm(torch.nn.LayerNorm, CastWeightBiasOp):
    def forward(self, input):
        weight, bias = cast_bias_weight(self, input)
        return torch.nn.functional.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class FeedForward(torch.nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = LayerNorm(dim)
        self.up = Linear(dim, 4 * dim)
        self.down = Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def load_lowvram(blocks):
    for block in blocks:
        for param in block.parameters():
            param.data = param.data.cpu().pin_memory()
    return blocks


@torch.inference_mode()
def sample(blocks, x, sigmas):
    for sigma in sigmas:
        h = x
        for block in blocks:
            h = block(h)
        x = x - sigma * h
    return x
