"""Micro-benchmark helper: times a function through a CUDA graph on a fresh stream."""
import statistics

import torch
import torch.nn.functional as F


def _clear_grads(tensors):
    for t in tensors or ():
        if t.grad is not None:
            t.grad = None


def bench_graph(fn, target_ms=20.0, retries=10, grad_to_none=None):
    """Median milliseconds per call of ``fn`` measured by replaying a graph."""
    caller = torch.cuda.current_stream()
    stream = torch.cuda.Stream()
    stream.wait_stream(caller)
    with torch.cuda.stream(stream):
        fn()
        _clear_grads(grad_to_none)
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(5):
            fn()
        stop.record()
        stop.synchronize()
        estimate = max(start.elapsed_time(stop) / 5, 1e-3)
        repeat = max(1, int(target_ms / estimate))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(repeat):
                _clear_grads(grad_to_none)
                fn()
        samples = []
        for _ in range(retries):
            a = torch.cuda.Event(enable_timing=True)
            b = torch.cuda.Event(enable_timing=True)
            a.record()
            graph.replay()
            b.record()
            samples.append((a, b))
        stream.synchronize()
    caller.wait_stream(stream)
    return statistics.median(a.elapsed_time(b) / repeat for a, b in samples)


class Case:
    def __init__(self, name, fn):
        self.name, self.fn = name, fn
        self.result = None


def build_cases(device):
    a = torch.randn(2048, 2048, device=device, dtype=torch.float16)
    b = torch.randn(2048, 2048, device=device, dtype=torch.float16)
    q = torch.randn(4, 16, 1024, 64, device=device, dtype=torch.float16)
    w = torch.randn(2048, device=device, dtype=torch.float16)
    out = torch.empty_like(a)

    def attention():
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    def norm():
        out.copy_(F.layer_norm(a, (2048,), w))

    return [Case("matmul", lambda: torch.mm(a, b, out=out)),
            Case("attention", attention),
            Case("layer_norm", norm)], out


def main():
    device = torch.device("cuda:0")
    torch.manual_seed(0)
    cases, out = build_cases(device)
    with torch.no_grad():
        for case in cases:
            case.result = bench_graph(case.fn)
            print(f"{case.name:12s} {case.result * 1000:8.2f} us")
    print("checksum", float(out.float().abs().mean()))


if __name__ == "__main__":
    main()
