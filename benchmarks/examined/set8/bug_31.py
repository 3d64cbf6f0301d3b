from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ArgsDescriptor:
    dtypes: tuple
    sizes: tuple
    strides: tuple


def to_arg_descriptor(*args):
    return ArgsDescriptor(
        tuple(a.dtype for a in args),
        tuple(tuple(a.size()) for a in args),
        tuple(a.stride() for a in args),
    )


class CUDAGraphRunner:

    def __init__(self, share_mem_pool=False):
        self.cuda_graph_cache = {}
        self.python_callables = {}
        self.pool = torch.cuda.graph_pool_handle() if share_mem_pool else None

    def register(self, name, fn):
        self.python_callables[name] = fn
        return lambda *args: self.call_cuda_graph(name, *args)

    def get_static_buffer(self, x):
        return torch.empty_like(x).copy_(x)

    def build_cuda_graph(self, fn, args):
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            static_inputs = tuple(self.get_static_buffer(a) for a in args)
            for _ in range(3):
                fn(*static_inputs)
        stream.synchronize()
        torch.cuda.synchronize()

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, pool=self.pool):
            static_outputs = fn(*static_inputs)
        return graph, static_inputs, static_outputs

    def call_cuda_graph(self, name, *args):
        fn = self.python_callables[name]
        key = (name, to_arg_descriptor(*args))
        if key not in self.cuda_graph_cache:
            self.cuda_graph_cache[key] = self.build_cuda_graph(fn, args)
        graph, static_inputs, static_outputs = self.cuda_graph_cache[key]
        for static, arg in zip(static_inputs, args):
            if static is not arg:
                static.copy_(arg)
        graph.replay()
        return static_outputs


def quantize_region(x, weight):
    amax = x.abs().amax().item()
    scale = 448.0 / max(amax, 1e-12)
    q = (x * scale).clamp_(-448.0, 448.0).to(torch.float8_e4m3fn)
    return q.to(x.dtype) @ weight / scale


def build(runner):
    return runner.register("quantize_region", quantize_region)


def main(batches, weight):
    region = build(CUDAGraphRunner(share_mem_pool=True))
    outs = []
    for x in batches:
        outs.append(region(x, weight).clone())
    return torch.stack(outs)
