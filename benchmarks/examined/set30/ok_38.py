"""Mixture block with a shared expert on a second stream, captured as one graph."""
import torch
from torch import nn


class SharedExpertBlock(nn.Module):
    def __init__(self, width, experts, lane):
        super().__init__()
        self.lane = lane
        self.shared = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.Parameter(torch.randn(experts, width, width) * width ** -0.5)

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            shared = self.shared(x)
        weights = torch.softmax(self.router(x), dim=-1)
        routed = torch.einsum("be,bd,edf->bf", weights, x, self.experts)
        main.wait_stream(self.lane)
        return x + shared + routed


class CapturedStack:
    def __init__(self, width, experts, depth, batch, device="cuda"):
        self.device = torch.device(device)
        self.lane = torch.cuda.Stream(self.device)
        self.blocks = nn.ModuleList(
            SharedExpertBlock(width, experts, self.lane) for _ in range(depth)
        ).to(self.device).eval()
        self.x = torch.zeros(batch, width, device=self.device)
        self.graph = torch.cuda.CUDAGraph()
        self.y = None

    def _forward(self):
        h = self.x
        for block in self.blocks:
            h = block(h)
        return h

    @torch.no_grad()
    def capture(self):
        warm = torch.cuda.Stream(self.device)
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            for _ in range(2):
                self._forward()
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(self.graph):
            self.y = self._forward()
        return self

    @torch.no_grad()
    def __call__(self, rows):
        n = rows.shape[0]
        self.x[:n].copy_(rows)
        self.graph.replay()
        return self.y[:n].clone()


def generate(stack, prompt, steps):
    trace = []
    h = prompt
    for _ in range(steps):
        h = torch.nn.functional.layer_norm(stack(h), h.shape[-1:])
        trace.append(h.norm(dim=-1))
    return torch.stack(trace).cpu()


if __name__ == "__main__":
    stack = CapturedStack(width=1024, experts=8, depth=6, batch=64).capture()
    print(generate(stack, torch.randn(64, 1024, device="cuda"), 32)[-1].mean())
