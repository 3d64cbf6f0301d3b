import threading
from typing import Dict, List

import torch
import torch.nn as nn


class MoELayer(nn.Module):
    def __init__(self, experts: int, width: int, device):
        super().__init__()
        self.w = nn.Parameter(torch.randn(experts, width, width, device=device) * 0.02, requires_grad=False)
        self.router = nn.Linear(width, experts, bias=False, device=device)

    def forward(self, x):
        idx = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for e in range(self.w.shape[0]):
            gate = (idx == e).to(x.dtype).unsqueeze(-1)
            out += gate * (x @ self.w[e])
        return x + out

    def expert_weights(self) -> torch.Tensor:
        return self.w.data


class Rebalancer:
    """Keeps a shuffled image of one layer and moves it in when asked."""

    def __init__(self, layers: List[MoELayer]):
        self.layers = layers
        self.buffer = torch.empty_like(layers[0].expert_weights())
        self.cursor = 0

    def stage(self, perm: torch.Tensor):
        self.buffer.copy_(self.layers[self.cursor].expert_weights()[perm])

    def apply_rebalance(self):
        live = self.layers[self.cursor].expert_weights()
        live.copy_(self.buffer)
        self.cursor = (self.cursor + 1) % len(self.layers)


class ElasticPrep:
    """Packs the current experts for engines that are about to join."""

    def __init__(self, layers: List[MoELayer], device):
        self.layers = layers
        self.device = device
        self.prep_stream = torch.cuda.Stream(device=device)
        self.packed: Dict[int, torch.Tensor] = {
            i: torch.empty_like(l.expert_weights()) for i, l in enumerate(layers)
        }
        self.thread = None

    def start(self):
        self.prep_stream.wait_stream(torch.cuda.current_stream(self.device))
        self.thread = threading.Thread(target=self._transfer_weights, name="elastic-prep")
        self.thread.start()

    def _transfer_weights(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.prep_stream):
            for i, layer in enumerate(self.layers):
                self.packed[i].copy_(layer.expert_weights(), non_blocking=True)
        self.prep_stream.synchronize()

    def commit(self) -> float:
        self.thread.join()
        return sum(t.float().norm().item() for t in self.packed.values())


class Server:
    def __init__(self, layers: int, experts: int, width: int, device):
        self.layers = [MoELayer(experts, width, device) for _ in range(layers)]
        self.rebalancer = Rebalancer(self.layers)
        self.prep = ElasticPrep(self.layers, device)
        self.experts = experts
        self.device = device

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def step(self, x: torch.Tensor) -> torch.Tensor:
        y = self.forward(x)
        self.rebalancer.stage(torch.randperm(self.experts, device=self.device))
        self.rebalancer.apply_rebalance()
        return y


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    server = Server(layers=6, experts=16, width=1024, device=device)
    x = torch.randn(256, 1024, device=device)
    server.step(x)
    server.prep.start()
    for _ in range(12):
        x = server.step(x)
    print(server.prep.commit(), x.norm().item())


if __name__ == "__main__":
    main()
