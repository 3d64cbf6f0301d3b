"""MoE layer with the shared expert on an alternate stream, joined by an event."""
import torch
import torch.nn.functional as F
from torch import nn


class DenseExpert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class RoutedExperts(nn.Module):
    def __init__(self, n_experts, top_k, width, hidden):
        super().__init__()
        self.top_k = top_k
        self.w_up = nn.Parameter(torch.randn(n_experts, width, 2 * hidden) * width**-0.5)
        self.w_down = nn.Parameter(torch.randn(n_experts, hidden, width) * hidden**-0.5)

    def forward(self, x, logits):
        weights, index = logits.softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for k in range(self.top_k):
            up = torch.bmm(x.unsqueeze(1), self.w_up[index[:, k]])
            gate, value = up.chunk(2, dim=-1)
            y = torch.bmm(F.silu(gate) * value, self.w_down[index[:, k]]).squeeze(1)
            out.addcmul_(y, weights[:, k : k + 1])
        return out


class SharedOverlapMoE(nn.Module):
    """The routed path is issued first; the shared expert overlaps with it."""

    def __init__(self, width, hidden, n_experts, top_k, alt_stream):
        super().__init__()
        self.gate = nn.Linear(width, n_experts, bias=False)
        self.routed = RoutedExperts(n_experts, top_k, width, hidden)
        self.shared = DenseExpert(width, hidden)
        self.shared_gate = nn.Linear(width, 1, bias=False)
        self.alt_stream = alt_stream
        self.fork = torch.cuda.Event()
        self.join = torch.cuda.Event()

    def forward(self, hidden_states):
        current = torch.cuda.current_stream()
        self.fork.record(current)
        routed = self.routed(hidden_states, self.gate(hidden_states))
        with torch.cuda.stream(self.alt_stream):
            self.alt_stream.wait_event(self.fork)
            shared = self.shared(hidden_states) * torch.sigmoid(self.shared_gate(hidden_states))
            self.join.record(self.alt_stream)
        current.wait_event(self.join)
        return routed.add_(shared)


class DecoderLayer(nn.Module):
    def __init__(self, width, alt_stream, **moe):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.mlp = SharedOverlapMoE(width, alt_stream=alt_stream, **moe)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class GraphedStack:
    def __init__(self, layers, batch, width, device):
        self.layers = layers
        self.static_x = torch.zeros(batch, width, device=device, dtype=torch.bfloat16)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side), torch.inference_mode():
            for _ in range(2):
                self._run(self.static_x)
        torch.cuda.current_stream(device).wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self.graph):
            self.static_y = self._run(self.static_x)

    def _run(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @torch.inference_mode()
    def __call__(self, x):
        self.static_x.copy_(x)
        self.graph.replay()
        return self.static_y.clone()


def decode(steps=128, batch=16, width=2048):
    device = torch.device("cuda", 0)
    alt = torch.cuda.Stream(device)
    layers = [
        DecoderLayer(width, alt, hidden=1024, n_experts=16, top_k=2).to(device, torch.bfloat16)
        for _ in range(12)
    ]
    stack = GraphedStack(layers, batch, width, device)
    x = torch.randn(batch, width, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        x = stack(x)
    return x.float().cpu()
