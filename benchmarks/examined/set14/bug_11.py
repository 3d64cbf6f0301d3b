import torch
import torch.nn.functional as F
from torch import nn

_SHARE_STREAM = None


def get_share_stream():
    global _SHARE_STREAM
    if _SHARE_STREAM is None:
        _SHARE_STREAM = torch.cuda.Stream()
    return _SHARE_STREAM


class SharedMLP(nn.Module):
    def __init__(self, hidden, inter):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Experts(nn.Module):
    def __init__(self, num, hidden, inter):
        super().__init__()
        self.w13 = nn.Parameter(torch.empty(num, 2 * inter, hidden))
        self.w2 = nn.Parameter(torch.empty(num, hidden, inter))

    def forward(self, x, weights, ids):
        out = torch.zeros_like(x)
        for slot in range(ids.shape[1]):
            w13 = self.w13[ids[:, slot]]
            w2 = self.w2[ids[:, slot]]
            gate, up = torch.bmm(w13, x.unsqueeze(-1)).squeeze(-1).chunk(2, dim=-1)
            y = torch.bmm(w2, (F.silu(gate) * up).unsqueeze(-1)).squeeze(-1)
            out.addcmul_(y, weights[:, slot : slot + 1])
        return out


class Qwen2MoeSparseMoeBlock(nn.Module):
    def __init__(self, hidden, inter, num_experts, top_k, enable_dual_stream=True):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(hidden, num_experts, bias=False)
        self.experts = Experts(num_experts, hidden, inter)
        self.shared_expert = SharedMLP(hidden, inter)
        self.shared_expert_gate = nn.Linear(hidden, 1, bias=False)
        self.enable_dual_stream = enable_dual_stream

    def _forward_shared_experts(self, hidden_states):
        shared = self.shared_expert(hidden_states)
        return torch.sigmoid(self.shared_expert_gate(hidden_states)) * shared

    @torch.no_grad()
    def forward(self, hidden_states):
        main_stream = torch.cuda.current_stream()
        if self.enable_dual_stream:
            share_stream = get_share_stream()
            share_stream.wait_stream(main_stream)
            shared_event = torch.cuda.Event()
            with torch.cuda.stream(share_stream):
                shared_output = self._forward_shared_experts(hidden_states)
            shared_event.record()
            shared_output.record_stream(main_stream)
        else:
            shared_output = self._forward_shared_experts(hidden_states)

        logits = self.gate(hidden_states)
        weights, ids = F.softmax(logits, dim=-1, dtype=torch.float).topk(self.top_k, dim=-1)
        final_hidden_states = self.experts(hidden_states, weights.to(hidden_states.dtype), ids)

        if self.enable_dual_stream:
            main_stream.wait_event(shared_event)
        final_hidden_states.add_(shared_output)
        return final_hidden_states
