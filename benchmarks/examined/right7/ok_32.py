"""Two-device pipeline with double-buffered peer transfers."""
import torch
from torch import nn


class Link:
    def __init__(self, src: int, dst: int, shape, depth=2):
        self.src, self.dst, self.depth = src, dst, depth
        self.stream = torch.cuda.Stream(device=src)
        self.buffers = [torch.empty(shape, device=f"cuda:{dst}") for _ in range(depth)]
        self.arrived, self.consumed = [], []
        for _ in range(depth):
            with torch.cuda.device(src):
                self.arrived.append(torch.cuda.Event())
            with torch.cuda.device(dst):
                ev = torch.cuda.Event()
                ev.record()
                self.consumed.append(ev)

    def send(self, i: int, x: torch.Tensor):
        s = i % self.depth
        with torch.cuda.device(self.src):
            self.stream.wait_stream(torch.cuda.current_stream())
            self.stream.wait_event(self.consumed[s])
            with torch.cuda.stream(self.stream):
                self.buffers[s].copy_(x, non_blocking=True)
                self.arrived[s].record()
            x.record_stream(self.stream)

    def recv(self, i: int) -> torch.Tensor:
        torch.cuda.current_stream(self.dst).wait_event(self.arrived[i % self.depth])
        return self.buffers[i % self.depth]

    def ack(self, i: int):
        self.consumed[i % self.depth].record(torch.cuda.current_stream(self.dst))


class TwoStage:
    def __init__(self, dim=512, batch=16):
        self.first = nn.Linear(dim, dim).to("cuda:0")
        self.second = nn.Linear(dim, dim).to("cuda:1")
        self.link = Link(0, 1, (batch, dim))

    @torch.inference_mode()
    def run(self, batches):
        outs = []
        for i, b in enumerate(batches):
            self.link.send(i, self.first(b.to("cuda:0")))
            outs.append(self.second(self.link.recv(i)).relu_())
            self.link.ack(i)
        return torch.stack(outs).mean().item()


if __name__ == "__main__":
    print(TwoStage().run(torch.randn(12, 16, 512).unbind(0)))
