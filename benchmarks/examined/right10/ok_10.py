"""Layer-wise weight streaming driven by module hooks."""
import torch
from torch import nn


class LayerStreamer:
    """Keeps at most `depth` layers' weights on the device while a sequential model runs."""

    def __init__(self, layers: nn.ModuleList, depth: int = 3):
        self.layers = list(layers)
        self.depth = depth
        self.h2d = torch.cuda.Stream()
        self.ready: dict[int, torch.cuda.Event] = {}
        self.home: list[dict[str, torch.Tensor]] = []
        for i, layer in enumerate(self.layers):
            host = {}
            for name, p in layer.named_parameters():
                host[name] = p.data.pin_memory()
                p.data = host[name]
            self.home.append(host)
            layer.register_forward_pre_hook(self._make_enter(i))
            layer.register_forward_hook(self._make_leave(i))

    def _load(self, i: int):
        if i >= len(self.layers) or i in self.ready:
            return
        with torch.cuda.stream(self.h2d):
            for name, p in self.layers[i].named_parameters():
                p.data = self.home[i][name].to("cuda", non_blocking=True)
        self.ready[i] = self.h2d.record_event()

    def _make_enter(self, i):
        def enter(module, inputs):
            for j in range(i, i + self.depth):
                self._load(j)
            torch.cuda.current_stream().wait_event(self.ready[i])

        return enter

    def _make_leave(self, i):
        def leave(module, inputs, output):
            stream = torch.cuda.current_stream()
            for name, p in module.named_parameters():
                p.data.record_stream(stream)
                p.data = self.home[i][name]
            del self.ready[i]

        return leave


class Stack(nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


@torch.no_grad()
def main():
    net = Stack(2048, 20)
    for p in net.parameters():
        p.requires_grad_(False)
    LayerStreamer(net.layers)
    for _ in range(5):
        y = net(torch.randn(64, 2048, device="cuda"))
        print(y.sum().item())


if __name__ == "__main__":
    main()
