import torch
import torch.nn.functional as F


def quantize_fp8(x):
    scale = x.abs().amax().float().clamp(min=1e-6) / 448.0
    return (x.float() / scale).to(torch.float8_e4m3fn), scale


class PreparedWeights:
    def __init__(self, w13, w2):
        self.w13 = w13
        self.w2 = w2
        self.w13_fp8 = [quantize_fp8(w) for w in w13]
        self.w2_fp8 = [quantize_fp8(w) for w in w2]


class MoEWrapper:
    """Fused MoE with an output buffer that is allocated once for graph capture."""

    TACTICS = ("bf16", "fp8_weights", "fp8_all")

    def __init__(self, experts, hidden, max_tokens, use_cuda_graph):
        self.experts = experts
        self.hidden = hidden
        self.use_cuda_graph = use_cuda_graph
        self._moe_output = None
        if use_cuda_graph:
            self._moe_output = torch.empty(max_tokens, hidden, dtype=torch.bfloat16, device="cuda")

    def _get_output(self, tokens):
        if self.use_cuda_graph:
            return self._moe_output[:tokens]
        return torch.empty(tokens, self.hidden, dtype=torch.bfloat16, device="cuda")

    def _gemm(self, x, weight, packed, tactic):
        if tactic == "bf16":
            return x @ weight.T
        w, scale = packed
        if tactic == "fp8_all":
            x8, x_scale = quantize_fp8(x)
            x = (x8.float() * x_scale).to(torch.bfloat16)
        return x @ (w.float() * scale).to(torch.bfloat16).T

    def run(self, x, weights, topk_ids, topk_scales, tactic="bf16"):
        out = self._get_output(x.shape[0])
        acc = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        for e in range(self.experts):
            scale = (topk_scales * (topk_ids == e)).sum(dim=1, keepdim=True)
            gate, up = self._gemm(x, weights.w13[e], weights.w13_fp8[e], tactic).chunk(2, dim=-1)
            acc += scale * self._gemm(F.silu(gate) * up, weights.w2[e], weights.w2_fp8[e], tactic)
        out.copy_(acc)
        return out


class TacticTuner:
    """Picks the fastest tactic whose replayed output agrees with the plain bf16 run."""

    def __init__(self, wrapper, weights, tolerance=2e-2, repeats=10):
        self.wrapper = wrapper
        self.weights = weights
        self.tolerance = tolerance
        self.repeats = repeats
        self.graphs = {}

    def _capture(self, args, tactic):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.wrapper.run(*args, tactic=tactic)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.wrapper.run(*args, tactic=tactic)
        return graph, out

    @torch.no_grad()
    def tune(self, x, topk_ids, topk_scales):
        args = (x, self.weights, topk_ids, topk_scales)
        expected = self.wrapper.run(*args)
        best, best_time = None, float("inf")
        for tactic in MoEWrapper.TACTICS:
            graph, out = self._capture(args, tactic)
            start = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(self.repeats):
                graph.replay()
            end.record()
            error = (out.float() - expected.float()).abs().max() / expected.float().abs().max()
            if error.item() > self.tolerance:
                continue
            elapsed = start.elapsed_time(end) / self.repeats
            if elapsed < best_time:
                best, best_time = tactic, elapsed
            self.graphs[tactic] = (graph, out)
        return best, best_time


def autotune_layer(w13, w2, tokens, top_k, hidden):
    weights = PreparedWeights(w13, w2)
    wrapper = MoEWrapper(len(w13), hidden, max_tokens=8192, use_cuda_graph=True)
    x = torch.randn(tokens, hidden, dtype=torch.bfloat16, device="cuda")
    scores = torch.rand(tokens, len(w13), device="cuda").softmax(dim=-1)
    topk_scales, topk_ids = scores.topk(top_k, dim=-1)
    tactic, elapsed = TacticTuner(wrapper, weights).tune(x, topk_ids, topk_scales)
    print(f"tactic {tactic}: {elapsed:.3f} ms")
    return wrapper, tactic
