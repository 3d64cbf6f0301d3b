"""Layer-input checkpoints moved to pinned memory during a chunked forward pass."""
import torch
import torch.nn as nn


class HostCheckpoints:
    def __init__(self, layers, length, dim, device):
        self.slots = [
            torch.empty(length, dim, pin_memory=True) for _ in range(layers)
        ]
        self.d2h = torch.cuda.Stream(device)
        self.written = [None] * layers

    def store(self, layer, tensor, produced):
        self.d2h.wait_event(produced)
        with torch.cuda.stream(self.d2h):
            self.slots[layer].copy_(tensor, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        tensor.record_stream(self.d2h)
        self.written[layer] = done

    def fetch(self, layer, device):
        self.written[layer].synchronize()
        return self.slots[layer].to(device)


class CellStack(nn.Module):
    def __init__(self, layers, dim):
        super().__init__()
        self.cells = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
            for _ in range(layers)
        )

    def run_layer(self, i, chunk):
        return chunk + self.cells[i](chunk)


class GradientAccumulator:
    def __init__(self, layers=6, dim=1024, length=4096, chunk=512, device="cuda"):
        self.device = torch.device(device)
        self.model = CellStack(layers, dim).to(self.device)
        self.ckpt = HostCheckpoints(layers, length, dim, self.device)
        self.layers, self.chunk = layers, chunk

    @torch.no_grad()
    def forward(self, x):
        current = x
        for i in range(self.layers):
            outputs = [self.model.run_layer(i, part) for part in current.split(self.chunk)]
            produced = torch.cuda.Event()
            produced.record()
            current = torch.cat(outputs)
            self.ckpt.store(i, current, produced)
        return current

    def backward(self, grad):
        for i in reversed(range(1, self.layers)):
            inp = self.ckpt.fetch(i - 1, self.device)
            pieces = []
            for part, g in zip(inp.split(self.chunk), grad.split(self.chunk)):
                part = part.detach().requires_grad_(True)
                self.model.run_layer(i, part).backward(g)
                pieces.append(part.grad)
            grad = torch.cat(pieces)
        return grad


def main():
    acc = GradientAccumulator()
    opt = torch.optim.SGD(acc.model.parameters(), lr=1e-4)
    for step in range(4):
        x = torch.randn(4096, 1024, device="cuda")
        y = acc.forward(x)
        acc.backward(y / y.numel())
        opt.step()
        opt.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    print("done", step)


if __name__ == "__main__":
    main()
