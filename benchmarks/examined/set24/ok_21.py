"""Streams expert weights of a mixture-of-experts block from pinned memory."""
import torch
from torch import nn


class ExpertHome:
    """Pinned host copies of all experts of one layer."""

    def __init__(self, weights):
        self.weights = [w.detach().cpu().pin_memory() for w in weights]


class ExpertStager:
    def __init__(self, device):
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.staged = {}

    def prefetch(self, layer, home):
        if layer in self.staged:
            return
        with torch.cuda.stream(self.copy_stream):
            tensors = [w.to(self.device, non_blocking=True) for w in home.weights]
            ready = torch.cuda.Event()
            ready.record(self.copy_stream)
        self.staged[layer] = (tensors, ready)

    def take(self, layer, home):
        self.prefetch(layer, home)
        tensors, ready = self.staged.pop(layer)
        compute = torch.cuda.current_stream(self.device)
        compute.wait_event(ready)
        for t in tensors:
            t.record_stream(compute)
        return tensors


class OffloadedMoE(nn.Module):
    def __init__(self, n_layers, n_experts, dim, device):
        super().__init__()
        self.device = device
        self.stager = ExpertStager(device)
        self.homes = [
            ExpertHome([torch.randn(dim, dim) for _ in range(n_experts)])
            for _ in range(n_layers)
        ]
        self.gates = nn.ModuleList(nn.Linear(dim, n_experts) for _ in range(n_layers)).to(device)

    @torch.no_grad()
    def forward(self, x):
        n = len(self.homes)
        self.stager.prefetch(0, self.homes[0])
        for i in range(n):
            experts = self.stager.take(i, self.homes[i])
            if i + 1 < n:
                self.stager.prefetch(i + 1, self.homes[i + 1])
            probs = self.gates[i](x).softmax(dim=-1)
            y = torch.zeros_like(x)
            for e, w in enumerate(experts):
                y += probs[:, e:e + 1] * (x @ w)
            del experts
            x = x + y
        return x


def main():
    device = torch.device("cuda")
    moe = OffloadedMoE(8, 4, 1024, device)
    for _ in range(4):
        out = moe(torch.randn(64, 1024, device=device))
    print(out.norm().item())


if __name__ == "__main__":
    main()
