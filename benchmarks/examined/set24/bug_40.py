"""Two-stage pipeline over two GPUs with overlapped peer copies."""
import torch
from torch import nn


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device)
        self.stream = torch.cuda.Stream(self.device)

    def run(self, x):
        with torch.cuda.stream(self.stream):
            return self.module(x)


class PeerLink:
    """Copies activations from one device to the next on a stream of the source."""

    def __init__(self, src, dst):
        self.src, self.dst = src, dst
        self.stream = torch.cuda.Stream(src.device)

    def send(self, y):
        self.stream.wait_stream(self.src.stream)
        with torch.cuda.stream(self.stream):
            out = y.to(self.dst.device, non_blocking=True)
            y.record_stream(self.stream)
        out.record_stream(self.dst.stream)
        return out


class TwoStagePipeline:
    def __init__(self, dim, depth):
        def block():
            return nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])
        self.first = Stage(block(), "cuda:0")
        self.second = Stage(block(), "cuda:1")
        self.link = PeerLink(self.first, self.second)
        torch.cuda.synchronize("cuda:0")
        torch.cuda.synchronize("cuda:1")

    @torch.no_grad()
    def forward(self, microbatches):
        outputs = []
        self.first.stream.wait_stream(torch.cuda.current_stream(self.first.device))
        for mb in microbatches:
            mb.record_stream(self.first.stream)
            hidden = self.first.run(mb)
            moved = self.link.send(hidden)
            outputs.append(self.second.run(moved))
        done = torch.cuda.current_stream(self.second.device)
        done.wait_stream(self.second.stream)
        for o in outputs:
            o.record_stream(done)
        return torch.cat(outputs)


def main():
    pipe = TwoStagePipeline(4096, 4)
    for step in range(10):
        batch = torch.randn(512, 4096, device="cuda:0")
        out = pipe.forward(batch.chunk(8))
        print(step, out.float().mean().item())


if __name__ == "__main__":
    main()
