"""bf16 working copies refreshed from fp32 masters after each step."""
import torch
import torch.nn as nn


class ShadowedLinear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim, device="cuda") * 0.02)
        self.shadow = self.weight.detach().to(torch.bfloat16).requires_grad_(True)
        self.refreshed = None

    def forward(self, x):
        if self.refreshed is not None:
            self.refreshed.wait()
            self.refreshed = None
        return x @ self.shadow

    @torch.no_grad()
    def refresh(self):
        self.shadow.copy_(self.weight)
        self.refreshed = torch.cuda.current_stream().record_event()


class MasterUpdater:
    def __init__(self, layers, lr):
        self.layers = layers
        self.opt = torch.optim.AdamW([l.weight for l in layers], lr=lr)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def step(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for layer in self.layers:
                layer.weight.grad = layer.shadow.grad.float()
            self.opt.step()
            self.opt.zero_grad()
            for layer in self.layers:
                layer.refresh()

    def zero_shadow(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        for layer in self.layers:
            layer.shadow.grad = None


def main():
    layers = [ShadowedLinear(1024) for _ in range(8)]
    updater = MasterUpdater(layers, 1e-4)
    for _ in range(200):
        x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
        for layer in layers:
            x = torch.relu(layer(x))
        updater.zero_shadow()
        x.float().pow(2).mean().backward()
        updater.step()
    torch.cuda.synchronize()
    print(layers[0].weight.norm().item())


if __name__ == "__main__":
    main()
