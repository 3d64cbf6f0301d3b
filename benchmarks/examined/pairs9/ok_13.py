"""MoE block whose shared expert runs next to the routed experts."""
from contextlib import contextmanager

import torch
from torch import nn


class SideStream:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)
        self.main = None

    @contextmanager
    def region(self):
        self.main = torch.cuda.current_stream()
        self.stream.wait_stream(self.main)
        with torch.cuda.stream(self.stream):
            yield

    def join(self):
        self.main.wait_stream(self.stream)


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.up(x)))


class SharedExpertMoE(nn.Module):
    def __init__(self, dim, hidden, n_experts, side):
        super().__init__()
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))
        self.shared = Expert(dim, hidden * 2)
        self.side = side

    def routed(self, x):
        weight = self.gate(x).softmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out.addcmul_(weight[:, i:i + 1], expert(x))
        return out

    def forward(self, x):
        with self.side.region():
            shared = self.shared(x)
        out = self.routed(x)
        self.side.join()
        return out + shared


class Model(nn.Module):
    def __init__(self, dim=1024, depth=6):
        super().__init__()
        side = SideStream()
        self.layers = nn.ModuleList(SharedExpertMoE(dim, 2048, 4, side) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return x


@torch.inference_mode()
def main():
    model = Model().cuda().eval()
    x = torch.randn(64, 1024, device="cuda")
    for _ in range(20):
        x = model(x) * 0.5
    print(x.norm().item())


if __name__ == "__main__":
    main()
