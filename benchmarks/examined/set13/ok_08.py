import collections

import torch
import torch.nn.functional as F

NUM_STREAMS = 2
STREAMS = {}
STREAM_CAST_BUFFERS = {}
stream_counters = collections.defaultdict(int)


def current_stream(device):
    return torch.cuda.current_stream(device)


def get_offload_stream(device):
    if device not in STREAMS:
        STREAMS[device] = [torch.cuda.Stream(device=device) for _ in range(NUM_STREAMS)]
    idx = stream_counters[device]
    stream_counters[device] = (idx + 1) % NUM_STREAMS
    return STREAMS[device][idx]


def get_cast_buffer(offload_stream, device, size):
    buf = STREAM_CAST_BUFFERS.get(offload_stream)
    if buf is None or buf.numel() < size:
        torch.cuda.synchronize(device)
        buf = torch.empty(size, dtype=torch.uint8, device=device)
        torch.cuda.synchronize(device)
        STREAM_CAST_BUFFERS[offload_stream] = buf
    return buf


def sync_stream(device, stream):
    current_stream(device).wait_stream(stream)


class OffloadedLinear:
    def __init__(self, weight, bias):
        self.weight_cpu = weight.detach().cpu().contiguous().pin_memory()
        self.bias_cpu = bias.detach().cpu().contiguous().pin_memory()
        self._prefetch = None

    def nbytes(self):
        return self.weight_cpu.nbytes + self.bias_cpu.nbytes

    def forward(self, x):
        weight, bias = self._prefetch
        return F.linear(x, weight, bias)


def cast_module(module, device):
    offload_stream = get_offload_stream(device)
    buf = get_cast_buffer(offload_stream, device, module.nbytes())
    wb = module.weight_cpu.nbytes
    weight = buf[:wb].view(module.weight_cpu.dtype).view(module.weight_cpu.shape)
    bias = buf[wb : wb + module.bias_cpu.nbytes].view(module.bias_cpu.dtype)
    with torch.cuda.stream(offload_stream):
        weight.copy_(module.weight_cpu, non_blocking=True)
        bias.copy_(module.bias_cpu, non_blocking=True)
    module._prefetch = (weight, bias)
    return offload_stream


def prefetch_queue_pop(queue, device):
    consumed = queue.pop(0)
    if consumed is not None:
        offload_stream, module = consumed
        offload_stream.wait_stream(current_stream(device))
        module._prefetch = None

    upcoming = queue[0] if queue else None
    if upcoming is not None:
        queue[0] = (cast_module(upcoming, device), upcoming)


@torch.inference_mode()
def run_blocks(blocks, x):
    device = x.device
    queue = [None] + list(blocks)
    for module in blocks:
        prefetch_queue_pop(queue, device)
        sync_stream(device, queue[0][0])
        x = F.gelu(module.forward(x))
    last_stream, last = queue.pop(0)
    last._prefetch = None
    torch.cuda.synchronize(device)
    return x
