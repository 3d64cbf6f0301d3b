"""Mixture layer whose experts run on separate streams."""
import torch
import torch.nn as nn


class Expert(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class DenseMixture(nn.Module):
    def __init__(self, dim, n_experts=4, hidden=4096):
        super().__init__()
        self.router = nn.Linear(dim, n_experts)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(n_experts))
        self.streams = [torch.cuda.Stream() for _ in range(n_experts - 1)]

    def forward(self, x):
        weights = self.router(x).softmax(dim=-1)
        here = torch.cuda.current_stream()
        outputs = []
        for expert, stream in zip(self.experts[1:], self.streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                outputs.append(expert(x))
            x.record_stream(stream)
        outputs.insert(0, self.experts[0](x))
        here.wait_stream(stream)
        for out in outputs[1:]:
            out.record_stream(here)
        mixed = torch.stack(outputs, dim=-1)
        return x + (mixed * weights.unsqueeze(-2)).sum(-1)


class Regressor(nn.Module):
    def __init__(self, dim=1024, depth=4):
        super().__init__()
        self.blocks = nn.Sequential(*[DenseMixture(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.blocks(x)).squeeze(-1)


def main():
    torch.manual_seed(3)
    model = Regressor().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(1000):
        x = torch.randn(512, 1024, device="cuda")
        y = x.sum(-1).tanh()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = (model(x) - y).square().mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
