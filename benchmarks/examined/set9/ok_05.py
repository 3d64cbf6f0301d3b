from typing import Optional

import torch
import torch.nn.functional as F

_aux_stream: Optional[torch.cuda.Stream] = None

SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD = 256


def aux_stream() -> torch.cuda.Stream:
    global _aux_stream
    if _aux_stream is None:
        _aux_stream = torch.cuda.Stream()
    return _aux_stream


def fused_experts(hidden_states, w1, w2, topk_weights, topk_ids, inplace: bool = False):
    out = torch.zeros_like(hidden_states)
    for expert_id in range(w1.shape[0]):
        weight = (topk_weights * (topk_ids == expert_id)).sum(-1, keepdim=True)
        gate, up = F.linear(hidden_states, w1[expert_id]).chunk(2, dim=-1)
        out.addcmul_(F.linear(F.silu(gate) * up, w2[expert_id]), weight.to(out.dtype))
    if inplace:
        return hidden_states.copy_(out)
    return out


class SharedFusedMoE(torch.nn.Module):
    def __init__(self, num_experts, top_k, hidden_size, intermediate_size, shared_experts=None):
        super().__init__()
        self.top_k = top_k
        self.w13_weight = torch.nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, hidden_size))
        self.w2_weight = torch.nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size))
        self.shared_experts = shared_experts
        self.shared_experts_stream = aux_stream() if shared_experts is not None else None

    def select_experts(self, router_logits):
        scores = router_logits.softmax(dim=-1)
        topk_weights, topk_ids = scores.topk(self.top_k, dim=-1)
        return topk_weights / topk_weights.sum(-1, keepdim=True), topk_ids

    def forward(self, hidden_states: torch.Tensor, router_logits: torch.Tensor):
        use_stream = (
            self.shared_experts_stream is not None
            and hidden_states.shape[0] <= SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD
        )
        shared_output = None
        if use_stream:
            hidden_states_clone = hidden_states.clone()
            hidden_states_clone.record_stream(self.shared_experts_stream)
            self.shared_experts_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.shared_experts_stream):
                shared_output = self.shared_experts(hidden_states_clone)
        elif self.shared_experts is not None:
            shared_output = self.shared_experts(hidden_states)

        topk_weights, topk_ids = self.select_experts(router_logits)
        final_hidden_states = fused_experts(
            hidden_states,
            self.w13_weight,
            self.w2_weight,
            topk_weights,
            topk_ids,
            inplace=True,
        )

        if use_stream:
            torch.cuda.current_stream().wait_stream(self.shared_experts_stream)
        if shared_output is None:
            return final_hidden_states
        return final_hidden_states + shared_output
