"""Streaming depth estimation with a captured network and temporal median."""
import torch
from torch import nn


class GraphRunner:
    def __init__(self, module, example):
        self.module = module.eval()
        self.static_in = example.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.inference_mode():
            for _ in range(2):
                self.module(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self.graph):
            self.static_out = self.module(self.static_in)

    @torch.inference_mode()
    def run(self, frame):
        self.static_in.copy_(frame)
        self.graph.replay()
        return self.static_out.squeeze(1)


class TemporalMedian:
    def __init__(self, length=5):
        self.length = length
        self.frames = []

    def push(self, depth):
        self.frames.append(depth)
        if len(self.frames) > self.length:
            self.frames.pop(0)
        return torch.stack(self.frames).median(dim=0).values


def depth_net():
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, 1, 1), nn.Softplus(),
    ).cuda()


def main():
    runner = GraphRunner(depth_net(), torch.zeros(1, 3, 240, 320, device="cuda"))
    median = TemporalMedian()
    for i in range(300):
        frame = torch.rand(1, 3, 240, 320, device="cuda")
        smooth = median.push(runner.run(frame))
    print(smooth.mean().item())


if __name__ == "__main__":
    main()
