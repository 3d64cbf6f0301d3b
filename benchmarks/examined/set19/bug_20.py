"""Qwen2-MoE style block: shared expert on an independent stream, routed experts through Triton kernels."""
import torch
import triton
import triton.language as tl

_shared_stream = None


def get_shared_stream():
    global _shared_stream
    if _shared_stream is None:
        _shared_stream = torch.cuda.Stream()
    return _shared_stream


def shared_expert_on_independent_stream(hidden_states, forward_func):
    stream = get_shared_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        return forward_func(hidden_states)


def wait_shared_stream():
    torch.cuda.current_stream().wait_stream(get_shared_stream())


@triton.jit
def _scale_rows(x, scale, n_cols, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(scale + row)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        v = tl.load(x + row * stride + cols, mask=mask)
        tl.store(x + row * stride + cols, v * s, mask=mask)


@triton.jit
def _silu_mul(gate_up, out, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    g = tl.load(gate_up + row * 2 * n_cols + cols, mask=mask).to(tl.float32)
    u = tl.load(gate_up + row * 2 * n_cols + n_cols + cols, mask=mask).to(tl.float32)
    tl.store(out + row * n_cols + cols, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=mask)


def silu_and_mul(gate_up):
    rows, width = gate_up.shape
    out = gate_up.new_empty(rows, width // 2)
    _silu_mul[(rows, triton.cdiv(width // 2, 1024))](gate_up, out, width // 2, BLOCK=1024)
    return out


class FusedExperts:
    """Top-1 routing with the router weight applied to the input."""

    def __init__(self, num_experts, dim, inter, dtype):
        self.w13 = torch.randn(num_experts, dim, 2 * inter, device="cuda", dtype=dtype) * dim**-0.5
        self.w2 = torch.randn(num_experts, inter, dim, device="cuda", dtype=dtype) * inter**-0.5

    def __call__(self, hidden, weights, ids):
        rows, cols = hidden.shape
        _scale_rows[(rows,)](hidden, weights, cols, hidden.stride(0), BLOCK=1024)
        out = torch.zeros_like(hidden)
        onehot = torch.nn.functional.one_hot(ids, self.w13.shape[0]).to(hidden.dtype)
        for e in range(self.w13.shape[0]):
            y = silu_and_mul(hidden @ self.w13[e]) @ self.w2[e]
            out.addcmul_(y, onehot[:, e : e + 1])
        return out


class SparseMoeBlock:
    def __init__(self, num_experts, dim, inter, dtype=torch.bfloat16, dual_stream=True):
        self.gate = torch.randn(dim, num_experts, device="cuda", dtype=dtype) * dim**-0.5
        self.experts = FusedExperts(num_experts, dim, inter, dtype)
        self.shared_up = torch.randn(dim, 2 * inter, device="cuda", dtype=dtype) * dim**-0.5
        self.shared_down = torch.randn(inter, dim, device="cuda", dtype=dtype) * inter**-0.5
        self.dual_stream = dual_stream

    def _forward_shared_experts(self, hidden_states):
        return silu_and_mul(hidden_states @ self.shared_up) @ self.shared_down

    def forward(self, hidden_states):
        router_logits = hidden_states @ self.gate
        if self.dual_stream:
            shared = shared_expert_on_independent_stream(hidden_states, self._forward_shared_experts)
        else:
            shared = self._forward_shared_experts(hidden_states)
        weights, ids = router_logits.float().softmax(-1).max(-1)
        routed = self.experts(hidden_states, weights.to(hidden_states.dtype), ids)
        if self.dual_stream:
            wait_shared_stream()
            shared.record_stream(torch.cuda.current_stream())
        return routed + shared


@torch.inference_mode()
def main():
    block = SparseMoeBlock(16, 2048, 1024)
    x = torch.randn(512, 2048, device="cuda", dtype=torch.bfloat16)
    for _ in range(32):
        x = torch.nn.functional.layer_norm(x + block.forward(x.clone()), (2048,))
    print(x.float().std().item())


if __name__ == "__main__":
    main()
