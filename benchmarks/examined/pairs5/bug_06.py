"""Prefill and decode graphs of a small model, replayed by two lanes to overlap."""
import torch
from torch import nn


class Lane:
    def __init__(self, name, module, shape, pool):
        self.name = name
        self.stream = torch.cuda.Stream()
        self.x = torch.zeros(shape, device="cuda")
        self.done = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            module(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, pool=pool):
            self.y = module(self.x)
        self.keep = torch.empty_like(self.y)

    def submit(self, value):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.x.copy_(value)
            self.graph.replay()
            self.keep.copy_(self.y)
            self.done.record()

    def collect(self):
        torch.cuda.current_stream().wait_event(self.done)
        return self.keep.clone()


class OverlappedRunner:
    def __init__(self, module, prefill_tokens, decode_tokens, dim):
        pool = torch.cuda.graph_pool_handle()
        self.prefill = Lane("prefill", module, (prefill_tokens, dim), pool)
        self.decode = Lane("decode", module, (decode_tokens, dim), pool)

    def step(self, prompt, tokens):
        self.prefill.submit(prompt)
        self.decode.submit(tokens)
        return self.prefill.collect(), self.decode.collect()


def main():
    dim = 1024
    net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim)).cuda().eval()
    runner = OverlappedRunner(net, 2048, 512, dim)
    prompt = torch.randn(2048, dim, device="cuda")
    tokens = torch.randn(512, dim, device="cuda")
    for _ in range(50):
        out, tokens = runner.step(prompt, tokens)
    torch.cuda.synchronize()
    print(out.abs().mean().item(), tokens.abs().mean().item())


if __name__ == "__main__":
    main()
