"""Two-branch block whose second branch runs forward and backward on a side stream."""
import torch
import torch.nn as nn


class SideBranchBlock(nn.Module):
    def __init__(self, dim: int, stream: torch.cuda.Stream):
        super().__init__()
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.mix = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim))
        self.stream = stream

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            x.record_stream(self.stream)
            branch = self.mix(x)
        trunk = self.mlp(x)
        main.wait_stream(self.stream)
        branch.record_stream(main)
        return x + trunk + branch


class Model(nn.Module):
    def __init__(self, dim: int, depth: int):
        super().__init__()
        side = torch.cuda.Stream()
        self.blocks = nn.ModuleList(SideBranchBlock(dim, side) for _ in range(depth))
        self.head = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Ema:
    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.params = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_mul_(self.shadow, self.decay)
        torch._foreach_add_(self.shadow, self.params, alpha=1.0 - self.decay)


@torch.no_grad()
def clip_grads(params, limit: float) -> torch.Tensor:
    grads = [p.grad for p in params if p.grad is not None]
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (limit / (total + 1e-6)).clamp(max=1.0))
    return total


def main(steps: int = 100, dim: int = 1024) -> None:
    device = torch.device("cuda", 0)
    model = Model(dim, 6).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    ema = Ema(model, 0.99)
    norms = torch.zeros(steps, device=device)
    torch.cuda.synchronize()
    for step in range(steps):
        batch = torch.randn(256, dim, device=device)
        opt.zero_grad(set_to_none=True)
        loss = (model(batch) - batch.roll(1, 0)).square().mean()
        loss.backward()
        norms[step].copy_(clip_grads(model.parameters(), 1.0))
        opt.step()
        ema.update()
    print(norms.max().item())


if __name__ == "__main__":
    main()
