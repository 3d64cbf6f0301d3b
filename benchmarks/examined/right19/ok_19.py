import torch
import torch.nn.functional as F


class HostLayer:
    def __init__(self, dim, hidden, gen):
        self.up = (torch.randn(hidden, dim, generator=gen) / dim ** 0.5).pin_memory()
        self.down = (torch.randn(dim, hidden, generator=gen) / hidden ** 0.5).pin_memory()
        self.norm = torch.ones(dim).pin_memory()

    def tensors(self):
        return self.up, self.down, self.norm


class Seat:
    def __init__(self, layer, device):
        self.tensors = [torch.empty_like(t, device=device) for t in layer.tensors()]
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class StreamedStack:
    def __init__(self, depth=12, dim=1024, hidden=4096, seats=2, device="cuda"):
        gen = torch.Generator().manual_seed(0)
        self.layers = [HostLayer(dim, hidden, gen) for _ in range(depth)]
        self.device = torch.device(device)
        self.seats = [Seat(self.layers[0], self.device) for _ in range(seats)]
        self.link = torch.cuda.Stream(self.device)
        torch.cuda.synchronize(self.device)

    def _request(self, index):
        if index >= len(self.layers):
            return
        seat = self.seats[index % len(self.seats)]
        with torch.cuda.stream(self.link):
            seat.drained.wait()
            for dst, src in zip(seat.tensors, self.layers[index].tensors()):
                dst.copy_(src, non_blocking=True)
            seat.filled.record()

    @torch.no_grad()
    def forward(self, x):
        for i in range(len(self.seats) - 1):
            self._request(i)
        for i in range(len(self.layers)):
            self._request(i + len(self.seats) - 1)
            seat = self.seats[i % len(self.seats)]
            seat.filled.wait()
            up, down, norm = seat.tensors
            h = F.rms_norm(x, (x.size(-1),), norm)
            x = x + F.linear(F.silu(F.linear(h, up)), down)
            seat.drained.record()
        return x

    def absorb(self, deltas, rate):
        self.link.synchronize()
        for layer, (d_up, d_down) in zip(self.layers, deltas):
            layer.up.add_(d_up, alpha=rate)
            layer.down.add_(d_down, alpha=rate)
            layer.norm.mul_(1.0 - 0.01 * rate)


def perturb(stack, gen):
    return [
        (torch.randn(l.up.shape, generator=gen) * 0.01, torch.randn(l.down.shape, generator=gen) * 0.01)
        for l in stack.layers
    ]


def main():
    stack = StreamedStack()
    gen = torch.Generator().manual_seed(17)
    probe = torch.randn(32, 1024, device="cuda")
    best, trail = float("inf"), []
    for trial in range(8):
        outs = [stack.forward(probe * (1 + 0.1 * r)) for r in range(6)]
        deltas = perturb(stack, gen)
        stack.absorb(deltas, rate=0.5 / (1 + trial))
        spread = torch.stack(outs).var(dim=0).mean().item()
        best = min(best, spread)
        trail.append(round(spread, 4))
    print(best, trail)


if __name__ == "__main__":
    main()
