"""Captured block with a side branch; the scratch buffers come from a workspace."""
import torch
import torch.nn as nn


class Workspace:
    def __init__(self, shape, count, device):
        self.free = [torch.zeros(shape, device=device) for _ in range(count)]

    def take(self):
        return self.free.pop()

    def give(self, *buffers):
        self.free.extend(buffers)


class GatedBlock(nn.Module):
    def __init__(self, rows, hidden, device):
        super().__init__()
        self.up = nn.Parameter(torch.randn(hidden, hidden, device=device) * 0.02)
        self.gate = nn.Parameter(torch.randn(hidden, hidden, device=device) * 0.02)
        self.side = torch.cuda.Stream(device)
        self.energy = torch.zeros(rows, 1, device=device)

    def forward(self, x, out, ws):
        main = torch.cuda.current_stream()
        a, b = ws.take(), ws.take()
        torch.mm(x, self.up, out=a)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            torch.mean(a, dim=-1, keepdim=True, out=self.energy)
            self.energy.abs_()
        torch.mm(x, self.gate, out=b)
        b.sigmoid_()
        torch.mul(a, b, out=out)
        main.wait_stream(self.side)
        out.mul_(self.energy)
        ws.give(a, b)


class CapturedStack:
    """Two graphs over the same workspace; both are replayed on the stack's own stream."""

    def __init__(self, depth, rows, hidden, device="cuda"):
        self.blocks = [GatedBlock(rows, hidden, device) for _ in range(depth)]
        self.inp = torch.zeros(rows, hidden, device=device)
        self.mid = [torch.zeros(rows, hidden, device=device) for _ in range(depth)]
        self.ws = Workspace((rows, hidden), 2, device)
        self.split = depth // 2
        self.stream = torch.cuda.Stream(device)
        self.graphs = []
        with torch.no_grad():
            self._part(0, depth)
            torch.cuda.synchronize()
            for first, last in ((0, self.split), (self.split, depth)):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self._part(first, last)
                self.graphs.append(graph)

    def _part(self, first, last):
        for i in range(first, last):
            self.blocks[i](self.inp if i == 0 else self.mid[i - 1], self.mid[i], self.ws)

    def __call__(self, x, early_exit=False):
        current = torch.cuda.current_stream(x.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            self.inp.copy_(x)
            self.graphs[0].replay()
            if not early_exit:
                self.graphs[1].replay()
            result = self.mid[self.split - 1 if early_exit else -1].clone()
        current.wait_stream(self.stream)
        result.record_stream(current)
        return result


if __name__ == "__main__":
    stack = CapturedStack(6, 512, 768)
    x = torch.randn(512, 768, device="cuda")
    print(stack(x).norm().item(), stack(x, early_exit=True).norm().item())
