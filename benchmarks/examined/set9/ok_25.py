from typing import Optional

import torch
import torch.nn.functional as F

_is_capture_mode = False


class model_capture_mode:
    def __enter__(self):
        global _is_capture_mode
        _is_capture_mode = True

    def __exit__(self, *exc):
        global _is_capture_mode
        _is_capture_mode = False


def get_is_capture_mode():
    return _is_capture_mode


class DeepseekV2MoE(torch.nn.Module):
    def __init__(self, gate, experts, shared_experts, top_k, routed_scaling_factor, alt_stream: Optional[torch.cuda.Stream]):
        super().__init__()
        self.gate = gate
        self.experts = torch.nn.ModuleList(experts)
        self.shared_experts = shared_experts
        self.top_k = top_k
        self.routed_scaling_factor = routed_scaling_factor
        self.alt_stream = alt_stream

    def _forward_router_experts(self, hidden_states):
        weights, ids = self.gate(hidden_states).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(hidden_states)
        for i, expert in enumerate(self.experts):
            out += expert(hidden_states) * (weights * (ids == i)).sum(-1, keepdim=True)
        return out * self.routed_scaling_factor

    def forward(self, hidden_states):
        if self.alt_stream is not None and hidden_states.shape[0] > 0 and get_is_capture_mode():
            return self.forward_normal_dual_stream(hidden_states)
        return self._forward_router_experts(hidden_states) + self.shared_experts(hidden_states)

    def forward_normal_dual_stream(self, hidden_states):
        current_stream = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current_stream)
        with torch.cuda.stream(self.alt_stream):
            shared_output = self.shared_experts(hidden_states)
        final_hidden_states = self._forward_router_experts(hidden_states)
        current_stream.wait_stream(self.alt_stream)
        return final_hidden_states + shared_output


class CudaGraphRunner:
    def __init__(self, layers, hidden_size: int, capture_bs, dtype=torch.bfloat16):
        self.layers = layers
        self.graphs = {}
        self.output_buffers = {}
        self.max_bs = max(capture_bs)
        self.hidden_states = torch.zeros(self.max_bs, hidden_size, dtype=dtype, device="cuda")
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()
        with torch.no_grad(), model_capture_mode():
            for bs in sorted(capture_bs, reverse=True):
                self.graphs[bs], self.output_buffers[bs] = self.capture_one_batch_size(bs)

    def _run(self, bs):
        x = self.hidden_states[:bs]
        for layer in self.layers:
            x = x + layer(F.layer_norm(x, x.shape[-1:]))
        return x

    def capture_one_batch_size(self, bs):
        for _ in range(2):
            torch.cuda.synchronize()
            self._run(bs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            out = self._run(bs)
        return graph, out

    def replay(self, hidden_states):
        raw_bs = hidden_states.shape[0]
        bs = min(b for b in self.graphs if b >= raw_bs)
        self.hidden_states[:raw_bs].copy_(hidden_states)
        self.graphs[bs].replay()
        return self.output_buffers[bs][:raw_bs]
