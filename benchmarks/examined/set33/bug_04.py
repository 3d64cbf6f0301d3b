"""Layer by layer weight quantization; packed tensors are streamed to the host while the next layer runs."""
import threading

import torch
from torch import nn


class StreamedState:
    """Collects host copies of quantized tensors and the events which complete them."""

    def __init__(self, device):
        self.device = device
        self.d2h = torch.cuda.Stream(device)
        self.lock = threading.Lock()
        self.host = {}
        self.events = []

    def stream_out(self, prefix, tensors):
        self.d2h.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.d2h):
            copies = {}
            for name, t in tensors.items():
                dst = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
                dst.copy_(t, non_blocking=True)
                copies[name] = dst
            done = torch.cuda.Event()
            done.record(self.d2h)
        with self.lock:
            self.host[prefix] = copies
            self.events.append(done)

    def finalize(self):
        with self.lock:
            for ev in self.events:
                ev.synchronize()
            self.events.clear()
            return self.host


class GroupQuantizer:
    def __init__(self, bits=4, group_size=128):
        self.maxq = 2**bits - 1
        self.group_size = group_size

    @torch.no_grad()
    def quantize(self, weight):
        rows, cols = weight.shape
        grouped = weight.float().reshape(rows, cols // self.group_size, self.group_size)
        lo = grouped.amin(-1, keepdim=True)
        hi = grouped.amax(-1, keepdim=True)
        scale = (hi - lo).clamp_min(1e-6) / self.maxq
        q = torch.clamp(torch.round((grouped - lo) / scale), 0, self.maxq).to(torch.uint8)
        packed = q[..., 0::2] | (q[..., 1::2] << 4)
        return {"qweight": packed, "scales": scale.half(), "zeros": lo.half()}


class ModuleLooper:
    def __init__(self, model, device="cuda:0"):
        self.model = model
        self.device = torch.device(device)
        self.state = StreamedState(self.device)
        self.quantizer = GroupQuantizer()

    def _process(self, name, linear):
        weight = linear.weight.detach().to(self.device)
        tensors = self.quantizer.quantize(weight)
        self.state.stream_out(name, tensors)
        linear.weight.requires_grad_(False)
        tensors.clear()

    def run(self):
        linears = [(n, m) for n, m in self.model.named_modules() if isinstance(m, nn.Linear)]
        for name, linear in linears:
            self._process(name, linear)
        return self.state.finalize()


def quantize_checkpoint(layers=8, width=4096):
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)])
    return ModuleLooper(model).run()
