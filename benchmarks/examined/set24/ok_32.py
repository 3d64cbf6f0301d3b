"""Module that records its forward once and replays it on a private stream."""
import torch
from torch import nn


class GraphedModule(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.engine_stream = torch.cuda.Stream()
        self.shape_key = None
        self.graph = None
        self.static_in = None
        self.static_out = None

    def _record(self, inputs):
        self.engine_stream.synchronize()
        self.graph = None
        self.static_in = [torch.empty_like(t) for t in inputs]
        for dst, src in zip(self.static_in, inputs):
            dst.copy_(src)
        for _ in range(2):
            self.module(*self.static_in)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.engine_stream):
            self.static_out = self.module(*self.static_in)

    @torch.inference_mode()
    def forward(self, *inputs):
        caller = torch.cuda.current_stream()
        self.engine_stream.wait_stream(caller)
        with torch.cuda.stream(self.engine_stream):
            key = tuple((t.shape, t.dtype) for t in inputs)
            if key != self.shape_key:
                self._record(inputs)
                self.shape_key = key
            for dst, src in zip(self.static_in, inputs):
                dst.copy_(src, non_blocking=True)
                src.record_stream(self.engine_stream)
            self.graph.replay()
            out = self.static_out.clone()
        caller.wait_stream(self.engine_stream)
        out.record_stream(caller)
        return out


class Backbone(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 7, stride=4, padding=3)
        self.blocks = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1) for _ in range(4))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return x.mean(dim=(2, 3))


def main():
    net = GraphedModule(Backbone().cuda().eval())
    torch.cuda.synchronize()
    history = []
    for step in range(24):
        size = 224 if step < 16 else 256
        images = torch.randn(4, 3, size, size, device="cuda")
        history.append(net(images))
    print(torch.stack(history).std().item())


if __name__ == "__main__":
    main()
