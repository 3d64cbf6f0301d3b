"""Prompt encoder whose layers stay in pinned memory; one layer ahead is copied to the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HostLayer:
    def __init__(self, dim):
        self.weight = (torch.randn(dim, dim) * dim ** -0.5).bfloat16().pin_memory()
        self.bias = torch.zeros(dim, dtype=torch.bfloat16).pin_memory()


class StreamedEncoder:
    def __init__(self, depth, dim):
        self.layers = [HostLayer(dim) for _ in range(depth)]
        self.transfer = torch.cuda.Stream()

    def _fetch(self, index):
        layer = self.layers[index]
        self.transfer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.transfer):
            weight = layer.weight.to("cuda", non_blocking=True)
            bias = layer.bias.to("cuda", non_blocking=True)
            return weight, bias, self.transfer.record_event()

    @torch.no_grad()
    def encode(self, x):
        ahead = self._fetch(0)
        for i in range(len(self.layers)):
            weight, bias, ready = ahead
            ahead = self._fetch(i + 1) if i + 1 < len(self.layers) else None
            torch.cuda.current_stream().wait_event(ready)
            x = F.gelu(F.linear(x, weight, bias))
            del weight, bias
        return x


class Generator(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2048), nn.SiLU(), nn.Linear(2048, out))

    def forward(self, context):
        return self.net(context)


def main():
    encoder = StreamedEncoder(depth=32, dim=4096)
    generator = Generator(4096, 1024).cuda().bfloat16()
    optimizer = torch.optim.AdamW(generator.parameters(), lr=1e-4)
    for step in range(200):
        prompt = torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)
        target = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
        loss = F.mse_loss(generator(encoder.encode(prompt)), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(loss.item())


if __name__ == "__main__":
    main()
