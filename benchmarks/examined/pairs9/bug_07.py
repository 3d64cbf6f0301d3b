"""Streaming speech encoder: audio frames go through a graph that begins with the upload."""
import torch
from torch import nn


class FrameSource:
    def __init__(self, streams, samples, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.shape = (streams, samples)

    def read_into(self, out):
        out.normal_(generator=self.gen)


class EncoderGraph:
    def __init__(self, encoder, streams, samples, hidden):
        self.frames = torch.zeros(streams, samples, pin_memory=True)
        self.device_frames = torch.zeros(streams, samples, device="cuda")
        self.state = torch.zeros(streams, hidden, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            encoder(self.device_frames, self.state)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.device_frames.copy_(self.frames, non_blocking=True)
            self.state.copy_(encoder(self.device_frames, self.state))

    def push(self, source):
        source.read_into(self.frames)
        self.graph.replay()


class Encoder(nn.Module):
    def __init__(self, samples, hidden):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(samples, 2048), nn.ReLU(), nn.Linear(2048, hidden))
        self.cell = nn.GRUCell(hidden, hidden)

    def forward(self, x, state):
        return self.cell(self.front(x), state)


@torch.inference_mode()
def main():
    streams, samples, hidden = 256, 1600, 512
    encoder = Encoder(samples, hidden).cuda().eval()
    runner = EncoderGraph(encoder, streams, samples, hidden)
    source = FrameSource(streams, samples)
    for _ in range(100):
        runner.push(source)
    print(runner.state.mean(-1).cpu())


if __name__ == "__main__":
    main()
