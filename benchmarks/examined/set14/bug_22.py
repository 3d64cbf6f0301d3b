import torch
import torch.nn.functional as F
from torch import nn

_shared_stream = None


def shared_experts_calculation_stream():
    global _shared_stream
    if _shared_stream is None:
        _shared_stream = torch.cuda.Stream()
    return _shared_stream


def dynamic_quant(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-6) / 127.0
    return torch.round(x / scale).to(torch.int8), scale


class SharedExperts(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.up = nn.Linear(hidden, inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)

    def forward(self, quantized, scale):
        x = quantized.to(scale.dtype) * scale
        return self.down(F.gelu(self.up(x)))


class RoutedExperts(nn.Module):
    def __init__(self, num, hidden, inter, top_k):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(hidden, num, bias=False)
        self.up = nn.Parameter(torch.empty(num, inter, hidden))
        self.down = nn.Parameter(torch.empty(num, hidden, inter))

    def forward(self, x):
        weights, ids = self.gate(x).softmax(dim=-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for slot in range(self.top_k):
            h = torch.einsum("th,tih->ti", x, self.up[ids[:, slot]])
            y = torch.einsum("ti,thi->th", F.gelu(h), self.down[ids[:, slot]])
            out += weights[:, slot, None] * y
        return out


class FusedMoE(nn.Module):
    def __init__(self, hidden, inter, num_experts, top_k, multistream_overlap_shared_expert=True):
        super().__init__()
        self.shared_experts = SharedExperts(hidden, inter)
        self.routed_experts = RoutedExperts(num_experts, hidden, inter, top_k)
        self.overlap = multistream_overlap_shared_expert

    @torch.inference_mode()
    def forward(self, hidden_states):
        main_stream = torch.cuda.current_stream()
        quantized, scale = dynamic_quant(hidden_states)
        if not self.overlap:
            return self.routed_experts(hidden_states) + self.shared_experts(quantized, scale)

        side_stream = shared_experts_calculation_stream()
        side_stream.wait_stream(main_stream)
        with torch.cuda.stream(side_stream):
            shared_out = self.shared_experts(quantized, scale)
            shared_out.record_stream(main_stream)
            done = side_stream.record_event()
        del quantized, scale
        routed_out = self.routed_experts(hidden_states)
        main_stream.wait_event(done)
        return routed_out.add_(shared_out)
