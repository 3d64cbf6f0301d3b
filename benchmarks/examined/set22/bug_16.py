"""Two micro-batches per MoE layer: shared experts run on an auxiliary stream beside the routed experts."""
import torch
import torch.nn.functional as F
from torch import nn


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class SharedExperts:
    def __init__(self, mlp, aux_stream):
        self.mlp = mlp
        self.aux_stream = aux_stream
        self._output = None
        self._done = torch.cuda.Event()

    def launch(self, hidden_states, ready):
        self.aux_stream.wait_event(ready)
        hidden_states.record_stream(self.aux_stream)
        with torch.cuda.stream(self.aux_stream):
            self._output = self.mlp(hidden_states)
            self._done.record(self.aux_stream)

    def take_output(self):
        torch.cuda.current_stream().wait_event(self._done)
        output, self._output = self._output, None
        return output


class MoELayer(nn.Module):
    def __init__(self, dim, hidden, num_experts, aux_stream):
        super().__init__()
        self.router = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([GatedMLP(dim, hidden) for _ in range(num_experts)])
        self.shared_mlp = GatedMLP(dim, hidden)
        self.shared = SharedExperts(self.shared_mlp, aux_stream)

    def routed(self, x):
        weights = self.router(x).softmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out += expert(x) * weights[:, i:i + 1]
        return out

    def forward(self, x):
        micro = x.chunk(2)
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream())
        results = []
        for mb in micro:
            self.shared.launch(mb, ready)
            routed = self.routed(mb)
            results.append(routed + self.shared.take_output())
        return torch.cat(results)


class Model(nn.Module):
    def __init__(self, dim, hidden, experts, depth):
        super().__init__()
        self.aux_stream = torch.cuda.Stream()
        self.layers = nn.ModuleList(
            [MoELayer(dim, hidden, experts, self.aux_stream) for _ in range(depth)]
        )
        self.norms = nn.ModuleList([nn.RMSNorm(dim) for _ in range(depth)])

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


@torch.inference_mode()
def generate(hidden_batches, dim=2048, hidden=1408, experts=16, depth=8):
    model = Model(dim, hidden, experts, depth).to("cuda", torch.bfloat16).eval()
    torch.cuda.synchronize()
    return [model(h.to("cuda", torch.bfloat16)).float().mean(0).cpu() for h in hidden_batches]
