import contextlib

import torch
import torch.nn as nn


class ExecutionLane:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    @contextlib.contextmanager
    def fenced(self):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        try:
            with torch.cuda.stream(self.stream):
                yield caller
        finally:
            caller.wait_stream(self.stream)


class VaeDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 64, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2), nn.Conv2d(64, 3, 3, padding=1)
        )

    def forward(self, z):
        return self.body(z).clamp(-1, 1)


class GraphedDecoder:
    def __init__(self, decoder, shape):
        self.lane = ExecutionLane()
        self.z = torch.zeros(shape, device="cuda")
        with self.lane.fenced():
            decoder(self.z)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.lane.stream):
            self.image = decoder(self.z)

    def __call__(self, latents):
        with self.lane.fenced() as caller:
            self.z.copy_(latents)
            self.graph.replay()
            image = self.image.clone()
            image.record_stream(caller)
        return image


@torch.no_grad()
def main():
    decoder = GraphedDecoder(VaeDecoder().cuda(), (1, 4, 64, 64))
    frames = []
    for t in range(16):
        latents = torch.randn(1, 4, 64, 64, device="cuda") * (t / 16)
        frames.append((decoder(latents) * 127.5 + 127.5).byte())
    print(torch.cat(frames).float().mean().item())


if __name__ == "__main__":
    main()
