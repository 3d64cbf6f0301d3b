"""Chunked gradients from layer inputs kept on the host."""
import torch
from torch import nn


class HostCheckpoints:
    def __init__(self, layers: int, shape: tuple, device: torch.device):
        self.host = [torch.empty(shape, pin_memory=True) for _ in range(layers)]
        self.landing = [torch.empty(shape, device=device) for _ in range(2)]
        self.d2h, self.h2d = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.filled = [torch.cuda.Event() for _ in range(2)]
        self.h2d.wait_stream(torch.cuda.current_stream(device))

    def put(self, layer: int, x: torch.Tensor) -> None:
        produced = torch.cuda.current_stream().record_event()
        self.d2h.wait_event(produced)
        with torch.cuda.stream(self.d2h):
            self.host[layer].copy_(x, non_blocking=True)
        x.record_stream(self.d2h)

    def start_backward(self) -> None:
        torch.cuda.synchronize()

    def fetch(self, layer: int) -> None:
        buf = layer % 2
        self.h2d.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.h2d):
            self.landing[buf].copy_(self.host[layer], non_blocking=True)
            self.filled[buf].record()

    def get(self, layer: int) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self.filled[layer % 2])
        return self.landing[layer % 2]


class GradientAccumulator:
    def __init__(self, layers: nn.ModuleList, shape: tuple, device: torch.device):
        self.layers = layers
        self.store = HostCheckpoints(len(layers), shape, device)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                self.store.put(i, x)
                x = layer(x)
        loss = x.square().mean()
        grad = 2 * x / x.numel()
        self.store.start_backward()
        last = len(self.layers) - 1
        self.store.fetch(last)
        for i in range(last, -1, -1):
            inp = self.store.get(i).detach().requires_grad_(True)
            if i:
                self.store.fetch(i - 1)
            out = self.layers[i](inp)
            out.backward(grad)
            grad = inp.grad
        return loss


def main():
    device = torch.device("cuda")
    shape = (8, 256, 512)
    layers = nn.ModuleList(
        nn.Sequential(nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(6)
    ).to(device)
    acc = GradientAccumulator(layers, shape, device)
    opt = torch.optim.SGD(layers.parameters(), lr=0.1)
    for step in range(20):
        loss = acc.run(torch.randn(shape, device=device))
        opt.step()
        opt.zero_grad()
    print(step, loss.item())


if __name__ == "__main__":
    main()
