import torch
import torch.distributed as dist
import torch.nn.functional as F

_shared_experts_stream = None


def shared_experts_stream():
    global _shared_experts_stream
    if _shared_experts_stream is None:
        _shared_experts_stream = torch.cuda.Stream()
    return _shared_experts_stream


class SharedExperts(torch.nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate_up = torch.nn.Linear(hidden, 2 * ffn, bias=False, device="cuda", dtype=torch.bfloat16)
        self.down = torch.nn.Linear(ffn, hidden, bias=False, device="cuda", dtype=torch.bfloat16)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def fused_experts(hidden_states, w1, w2, topk_weights, topk_ids, inplace):
    """Routed experts; with ``inplace`` the result goes into ``hidden_states``."""
    out = hidden_states if inplace else torch.empty_like(hidden_states)
    acc = torch.zeros_like(hidden_states, dtype=torch.float32)
    for e in range(w1.shape[0]):
        weight = (topk_weights * (topk_ids == e)).sum(dim=1, keepdim=True)
        gate, up = (hidden_states @ w1[e].T).chunk(2, dim=-1)
        acc += weight * ((F.silu(gate) * up) @ w2[e].T)
    out.copy_(acc)
    return out


class FusedMoE(torch.nn.Module):
    """Routed and shared experts; the shared ones run on a stream of their own."""

    def __init__(self, experts, top_k, hidden, ffn, group):
        super().__init__()
        self.top_k = top_k
        self.group = group
        self.gate = torch.nn.Linear(hidden, experts, bias=False, device="cuda", dtype=torch.bfloat16)
        self.w1 = torch.nn.Parameter(torch.randn(experts, 2 * ffn, hidden, device="cuda", dtype=torch.bfloat16))
        self.w2 = torch.nn.Parameter(torch.randn(experts, hidden, ffn, device="cuda", dtype=torch.bfloat16))
        self.shared_experts = SharedExperts(hidden, ffn)
        self.shared_experts_stream = shared_experts_stream()

    def select_experts(self, router_logits):
        weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(self.top_k, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), ids

    def forward(self, hidden_states):
        current = torch.cuda.current_stream()
        router_logits = self.gate(hidden_states)
        self.shared_experts_stream.wait_stream(current)
        topk_weights, topk_ids = self.select_experts(router_logits)
        with torch.cuda.stream(self.shared_experts_stream):
            shared_output = self.shared_experts(hidden_states)
        routed_output = fused_experts(
            hidden_states, self.w1, self.w2, topk_weights, topk_ids, inplace=True
        )
        current.wait_stream(self.shared_experts_stream)
        shared_output.record_stream(current)
        output = routed_output + shared_output
        dist.all_reduce(output, group=self.group)
        return output


class DecoderLayer(torch.nn.Module):
    def __init__(self, experts, top_k, hidden, ffn, group):
        super().__init__()
        self.norm = torch.nn.RMSNorm(hidden, device="cuda", dtype=torch.bfloat16)
        self.moe = FusedMoE(experts, top_k, hidden, ffn, group)

    def forward(self, x):
        return x + self.moe(self.norm(x))


@torch.inference_mode()
def run(layers, token_embeddings, group):
    x = token_embeddings
    for layer in layers:
        x = layer(x)
    return x
