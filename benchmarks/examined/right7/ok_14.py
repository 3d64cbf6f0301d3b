"""Graph capture of a forked shared-expert branch."""
import torch
from torch import nn


class SharedExpertLayer(nn.Module):
    def __init__(self, dim=512):
        super().__init__()
        self.routed = nn.Linear(dim, dim)
        self.shared = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.aux = torch.cuda.Stream()
        self.fork, self.join = torch.cuda.Event(), torch.cuda.Event()

    def forward(self, x):
        self.fork.record()
        with torch.cuda.stream(self.aux):
            self.fork.wait()
            s = self.shared(x)
            self.join.record()
        r = self.routed(x)
        self.join.wait()
        s.record_stream(torch.cuda.current_stream())
        return r + s


class Decoder:
    def __init__(self, layers=4, dim=512):
        self.net = nn.Sequential(*[SharedExpertLayer(dim) for _ in range(layers)]).cuda().eval()
        self.static_x = torch.zeros(8, dim, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode():
            self._warmup()
            with torch.cuda.graph(self.graph):
                self.static_y = self.net(self.static_x)

    def _warmup(self):
        for _ in range(2):
            self.net(self.static_x)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def __call__(self, x):
        self.static_x.copy_(x)
        self.graph.replay()
        return self.static_y.clone()


if __name__ == "__main__":
    dec = Decoder()
    h = torch.randn(8, 512, device="cuda")
    for _ in range(4):
        h = dec(h)
    print(h.mean().item())
