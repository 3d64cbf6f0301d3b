from typing import Iterator, List, Tuple

import torch
import torch.nn as nn


class Flat:
    """View of a list of parameters as one flat range."""

    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        self.numel = sum(p.numel() for p in params)

    def spans(self) -> Iterator[Tuple[nn.Parameter, slice]]:
        off = 0
        for p in self.params:
            yield p, slice(off, off + p.numel())
            off += p.numel()


class HostSGD:
    def __init__(self, groups: List[List[nn.Parameter]], lr: float, momentum: float = 0.9):
        self.flats = [Flat(g) for g in groups]
        widest = max(f.numel for f in self.flats)
        self.staging = torch.empty(widest, dtype=torch.float16, pin_memory=True)
        self.master = [self._pull(f).float() for f in self.flats]
        self.velocity = [torch.zeros_like(m) for m in self.master]
        self.lr, self.momentum = lr, momentum

    @torch.no_grad()
    def _pull(self, flat: Flat, grads: bool = False) -> torch.Tensor:
        for p, span in flat.spans():
            src = p.grad if grads else p
            self.staging[span].copy_(src.reshape(-1))
        return self.staging[: flat.numel]

    @torch.no_grad()
    def _push(self, flat: Flat, master: torch.Tensor):
        self.staging[: flat.numel].copy_(master)
        for p, span in flat.spans():
            p.view(-1).copy_(self.staging[span])

    @torch.no_grad()
    def step(self, loss_scale: float):
        for flat, master, vel in zip(self.flats, self.master, self.velocity):
            grad = self._pull(flat, grads=True).float().div_(loss_scale)
            if not torch.isfinite(grad).all():
                continue
            vel.mul_(self.momentum).add_(grad)
            master.add_(vel, alpha=-self.lr)
            self._push(flat, master)

    def zero_grad(self):
        for flat in self.flats:
            for p in flat.params:
                p.grad = None


class Autoencoder(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, width // 8))
        self.dec = nn.Sequential(nn.Linear(width // 8, width // 2), nn.ReLU(), nn.Linear(width // 2, width))

    def forward(self, x):
        return self.dec(self.enc(x))


def main():
    torch.manual_seed(0)
    width, scale = 2048, 1024.0
    model = Autoencoder(width).half().cuda()
    opt = HostSGD([list(model.enc.parameters()), list(model.dec.parameters())], lr=0.05)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for step in range(20):
            x = torch.randn(256, width, device="cuda", dtype=torch.float16)
            loss = (model(x) - x).float().square().mean()
            (loss * scale).backward()
            opt.step(scale)
            opt.zero_grad()
            if step % 5 == 0:
                print(step, loss.item())


if __name__ == "__main__":
    main()
