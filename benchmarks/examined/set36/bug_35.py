"""Low-precision exchange operators that share one workspace, eager and inside CUDA graphs."""
import torch
import torch.nn as nn


class ExecOrder:
    """Keeps operators that share a workspace one after the other across user streams."""

    def __init__(self):
        self.tail = torch.cuda.Event()

    def enter(self):
        stream = torch.cuda.current_stream()
        if not torch.cuda.is_current_stream_capturing():
            stream.wait_event(self.tail)

    def leave(self):
        stream = torch.cuda.current_stream()
        if not torch.cuda.is_current_stream_capturing():
            self.tail.record(stream)


class BlockQuantizer:
    def __init__(self, max_elems, block=128, device="cuda"):
        self.block = block
        self.codes = torch.zeros(max_elems, dtype=torch.int8, device=device)
        self.scales = torch.zeros(max_elems // block, dtype=torch.float32, device=device)
        self.order = ExecOrder()
        torch.cuda.synchronize()

    def round_trip(self, x):
        """Quantizes into the workspace and expands it again."""
        n = x.numel()
        blocks = x.reshape(-1, self.block)
        self.order.enter()
        scales = self.scales[: n // self.block]
        codes = self.codes[:n].view_as(blocks)
        torch.amax(blocks.abs(), dim=1, out=scales)
        scales.clamp_(min=1e-8).div_(127.0)
        codes.copy_((blocks / scales.unsqueeze(1)).round_())
        out = codes.to(x.dtype) * scales.unsqueeze(1)
        self.order.leave()
        return out.view_as(x)


class Encoder(nn.Module):
    def __init__(self, dim, depth, quantizer: BlockQuantizer):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.quantizer = quantizer

    def forward(self, x):
        for layer in self.layers:
            x = self.quantizer.round_trip(torch.relu(layer(x)))
        return x


class GraphedEncoder:
    def __init__(self, encoder: Encoder, example):
        self.encoder = encoder
        self.static_in = example.clone()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(warm):
            for _ in range(3):
                encoder(self.static_in)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.static_out = encoder(self.static_in)

    def __call__(self, x):
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()


class Service:
    """Runs the encoder on one stream and telemetry compression on another."""

    def __init__(self, dim=2048, batch=512):
        self.quantizer = BlockQuantizer(batch * dim)
        self.encoder = Encoder(dim, 6, self.quantizer).cuda().eval()
        self.graphed = GraphedEncoder(self.encoder, torch.randn(batch, dim, device="cuda"))
        self.telemetry_stream = torch.cuda.Stream()
        self.history = []

    def compress_stats(self, stats):
        self.telemetry_stream.wait_stream(torch.cuda.current_stream())
        stats.record_stream(self.telemetry_stream)
        with torch.cuda.stream(self.telemetry_stream):
            self.history.append(self.quantizer.round_trip(stats))

    def step(self, x):
        stats = x.square()
        self.compress_stats(stats)
        return self.graphed(x)


def main():
    service = Service()
    x = torch.randn(512, 2048, device="cuda")
    for _ in range(64):
        y = service.step(x)
    torch.cuda.synchronize()
    print(float(y.mean()), len(service.history))


if __name__ == "__main__":
    main()
