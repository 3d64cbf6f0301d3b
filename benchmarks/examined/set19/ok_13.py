"""MoE layer whose shared experts run on an auxiliary stream for small batches."""
import torch

_AUX_STREAM = None
DUAL_STREAM_TOKEN_THRESHOLD = 256


def aux_stream():
    global _AUX_STREAM
    if _AUX_STREAM is None:
        _AUX_STREAM = torch.cuda.Stream()
    return _AUX_STREAM


class GatedMLP(torch.nn.Module):
    def __init__(self, dim, inter):
        super().__init__()
        self.gate_up = torch.nn.Linear(dim, 2 * inter, bias=False)
        self.down = torch.nn.Linear(inter, dim, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(torch.nn.functional.silu(gate) * up)


class RoutedExperts(torch.nn.Module):
    def __init__(self, num_experts, top_k, dim, inter):
        super().__init__()
        self.top_k = top_k
        self.w13 = torch.nn.Parameter(torch.randn(num_experts, dim, 2 * inter) * dim**-0.5)
        self.w2 = torch.nn.Parameter(torch.randn(num_experts, inter, dim) * inter**-0.5)

    def forward(self, x, router_logits, apply_router_weight_on_input=False):
        weights, ids = torch.topk(router_logits.softmax(-1), self.top_k, dim=-1)
        if apply_router_weight_on_input:
            assert self.top_k == 1
            x.mul_(weights)
        out = torch.zeros_like(x)
        for k in range(self.top_k):
            w13, w2 = self.w13[ids[:, k]], self.w2[ids[:, k]]
            gate, up = torch.bmm(x.unsqueeze(1), w13).squeeze(1).chunk(2, dim=-1)
            y = torch.bmm((torch.nn.functional.silu(gate) * up).unsqueeze(1), w2).squeeze(1)
            out += y if apply_router_weight_on_input else y * weights[:, k : k + 1]
        return out


class SharedFusedMoE(torch.nn.Module):
    def __init__(self, num_experts, top_k, dim, inter):
        super().__init__()
        self.gate = torch.nn.Linear(dim, num_experts, bias=False)
        self.experts = RoutedExperts(num_experts, top_k, dim, inter)
        self.shared_experts = GatedMLP(dim, inter)
        self.weight_on_input = top_k == 1

    def _fork(self, hidden):
        """Returns the copy that belongs to the auxiliary stream."""
        clone = hidden.clone()
        clone.record_stream(aux_stream())
        aux_stream().wait_stream(torch.cuda.current_stream())
        return clone

    def forward(self, hidden):
        overlap = hidden.shape[0] <= DUAL_STREAM_TOKEN_THRESHOLD
        if overlap:
            hidden_clone = self._fork(hidden)
        else:
            shared = self.shared_experts(hidden)
        logits = self.gate(hidden)
        if overlap:
            with torch.cuda.stream(aux_stream()):
                shared = self.shared_experts(hidden_clone)
        routed = self.experts(hidden, logits, self.weight_on_input)
        if overlap:
            current = torch.cuda.current_stream()
            current.wait_stream(aux_stream())
            shared.record_stream(current)
        return routed + shared


class DecoderStack(torch.nn.Module):
    def __init__(self, depth, dim):
        super().__init__()
        self.layers = torch.nn.ModuleList(SharedFusedMoE(16, 1, dim, dim // 2) for _ in range(depth))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, x):
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return x


@torch.inference_mode()
def main():
    model = DecoderStack(8, 1024).cuda()
    x = torch.randn(32, 1024, device="cuda")
    for _ in range(64):
        x = torch.nn.functional.normalize(model(x), dim=-1) * 32
    print(x.mean().item())


if __name__ == "__main__":
    main()
