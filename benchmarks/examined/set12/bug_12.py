from typing import Optional

import torch
import torch.nn as nn

_aux_stream: Optional[torch.cuda.Stream] = None


def aux_stream() -> torch.cuda.Stream:
    global _aux_stream
    if _aux_stream is None:
        _aux_stream = torch.cuda.Stream()
    return _aux_stream


class FusedMoEModularKernel(nn.Module):
    def __init__(self, w13, w2, top_k, shared_experts=None, overlap_threshold=256):
        super().__init__()
        self.w13 = nn.Parameter(w13)
        self.w2 = nn.Parameter(w2)
        self.top_k = top_k
        self.shared_experts = shared_experts
        self.shared_experts_stream = aux_stream() if shared_experts is not None else None
        self.overlap_threshold = overlap_threshold

    def _maybe_setup_shared_experts_stream(self, hidden_states):
        use_stream = (
            self.shared_experts is not None and hidden_states.shape[0] <= self.overlap_threshold
        )
        if use_stream:
            hidden_states.record_stream(self.shared_experts_stream)
            self.shared_experts_stream.wait_stream(torch.cuda.current_stream())
        return use_stream

    def _run_shared(self, hidden_states, use_stream):
        if self.shared_experts is None:
            return None
        if not use_stream:
            return self.shared_experts(hidden_states)
        with torch.cuda.stream(self.shared_experts_stream):
            return self.shared_experts(hidden_states)

    def _fused_experts(self, hidden_states, topk_weights, topk_ids):
        out = torch.zeros_like(hidden_states)
        for k in range(self.top_k):
            w13 = self.w13[topk_ids[:, k]]
            w2 = self.w2[topk_ids[:, k]]
            gate, up = torch.einsum("td,thd->th", hidden_states, w13).chunk(2, dim=-1)
            y = torch.einsum("th,tdh->td", torch.nn.functional.silu(gate) * up, w2)
            out.add_(y * topk_weights[:, k : k + 1])
        return out

    def _finalize(self, fused_out, shared_output):
        if shared_output is None:
            return fused_out
        return fused_out + shared_output

    def forward(self, hidden_states, router_logits):
        use_stream = self._maybe_setup_shared_experts_stream(hidden_states)
        shared_output = self._run_shared(hidden_states, use_stream)
        scores = router_logits.softmax(dim=-1)
        topk_weights, topk_ids = scores.topk(self.top_k, dim=-1)
        fused_out = self._fused_experts(hidden_states, topk_weights, topk_ids)
        return self._finalize(fused_out, shared_output)
