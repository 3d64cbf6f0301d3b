"""Graphed transformer layers whose replay runs beside the caller's stream."""
import torch
from torch import nn


class GraphedLayer:
    """One captured forward of ``module`` for a fixed input shape."""

    def __init__(self, module, sample, stream):
        self.module = module
        self.stream = stream
        self.static_in = sample.clone()
        self.graph = torch.cuda.CUDAGraph()
        self.finished = torch.cuda.Event()
        self._capture()

    @torch.no_grad()
    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.module(self.static_in)
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.static_out = self.module(self.static_in)

    def launch(self, x):
        """Starts the replay on the graph stream; ``result`` joins the caller's stream again."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.static_in.copy_(x)
            x.record_stream(self.stream)
            self.finished.record(self.stream)
            self.graph.replay()

    def result(self):
        torch.cuda.current_stream().wait_event(self.finished)
        return self.static_out.clone()


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(self.norm(x))))


class ParallelBlock(nn.Module):
    """Attention on the caller's stream, the feed-forward branch as a graph next to it."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ff = FeedForward(width)
        self.graphed = None

    def build(self, sample, stream):
        self.graphed = GraphedLayer(self.ff, sample, stream)

    def forward(self, x):
        self.graphed.launch(x)
        h = self.norm(x)
        attended, _ = self.attn(h, h, h, need_weights=False)
        return x + attended + self.graphed.result()


class Encoder(nn.Module):
    def __init__(self, depth, width, heads):
        super().__init__()
        self.blocks = nn.ModuleList(ParallelBlock(width, heads) for _ in range(depth))

    def build(self, batch, tokens, width):
        sample = torch.randn(batch, tokens, width, device="cuda")
        stream = torch.cuda.Stream()
        for block in self.blocks:
            block.build(sample, stream)

    @torch.no_grad()
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def main(depth=12, batch=8, tokens=512, width=1024, heads=16):
    encoder = Encoder(depth, width, heads).cuda().eval()
    encoder.build(batch, tokens, width)
    outs = []
    for _ in range(10):
        outs.append(encoder(torch.randn(batch, tokens, width, device="cuda")).mean(dim=(1, 2)))
    return torch.stack(outs).cpu()


if __name__ == "__main__":
    print(main())
