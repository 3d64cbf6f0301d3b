"""Decode steps for two batch sizes, graphs captured into one shared memory pool."""
import torch
from torch import nn


class DecoderStep(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, h):
        return h + self.down(torch.relu(self.up(h)))


class GraphBank:
    def __init__(self, step, sizes, dim=512):
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream()
        self.graphs, self.inputs, self.outputs = {}, {}, {}
        for n in sorted(sizes, reverse=True):
            x = torch.zeros(n, dim, device="cuda")
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream), torch.no_grad():
                step(x)
            torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(g, pool=self.pool, stream=self.stream):
                y = step(x)
            self.graphs[n], self.inputs[n], self.outputs[n] = g, x, y

    def run(self, h):
        n = h.shape[0]
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            self.inputs[n].copy_(h)
            self.graphs[n].replay()
        caller.wait_stream(self.stream)
        return self.outputs[n].clone()


def main():
    bank = GraphBank(DecoderStep().cuda(), (8, 32))
    small = torch.randn(8, 512, device="cuda")
    large = torch.randn(32, 512, device="cuda")
    for _ in range(16):
        small = bank.run(small)
        large = bank.run(large)
    torch.cuda.synchronize()
    print(small.norm().item(), large.norm().item())


if __name__ == "__main__":
    main()
