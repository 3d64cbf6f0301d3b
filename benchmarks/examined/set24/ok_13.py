import torch
import torch.nn as nn

DUAL_STREAM_TOKEN_THRESHOLD = 1024


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


class SharedExperts:
    """Runs the shared expert on an auxiliary stream next to the routed experts."""

    def __init__(self, mlp, aux_stream):
        self.mlp = mlp
        self.aux_stream = aux_stream
        self._output = None

    def fork(self, hidden):
        snapshot = hidden.clone()
        snapshot.record_stream(self.aux_stream)
        self.aux_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aux_stream):
            self._output = self.mlp(snapshot)

    def join(self):
        main = torch.cuda.current_stream()
        main.wait_stream(self.aux_stream)
        out, self._output = self._output, None
        out.record_stream(main)
        return out


class MoELayer(nn.Module):
    def __init__(self, dim, hidden, num_experts, top_k, aux_stream):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([MLP(dim, hidden) for _ in range(num_experts)])
        self.shared_mlp = MLP(dim, hidden)
        self.shared = SharedExperts(self.shared_mlp, aux_stream)
        self.top_k = top_k

    def _routed(self, x):
        weights, ids = self.gate(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        x.mul_(weights.sum(-1, keepdim=True))
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(ids == e)
            if rows.numel():
                out.index_add_(0, rows, expert(x[rows]) * weights[rows, slot, None])
        return out

    def forward(self, hidden):
        if hidden.shape[0] > DUAL_STREAM_TOKEN_THRESHOLD:
            shared = self.shared_mlp(hidden)
            return shared.add_(self._routed(hidden))
        self.shared.fork(hidden)
        routed = self._routed(hidden)
        return routed.add_(self.shared.join())


class Decoder(nn.Module):
    def __init__(self, dim, hidden, depth, num_experts, device="cuda"):
        super().__init__()
        aux = torch.cuda.Stream(device)
        self.layers = nn.ModuleList(
            [MoELayer(dim, hidden, num_experts, 2, aux) for _ in range(depth)]
        )
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.to(device)

    @torch.inference_mode()
    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x
