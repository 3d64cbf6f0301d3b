"""Two-device model split: micro-batches pass from one GPU to the other."""
import torch
from torch import nn


class Half(nn.Module):
    def __init__(self, dim, depth, device):
        super().__init__()
        self.device = torch.device(device)
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)])
        self.to(self.device)

    def forward(self, x):
        return self.body(x)


class SplitModel:
    def __init__(self, dim, depth, n_micro):
        self.first = Half(dim, depth // 2, "cuda:0")
        self.second = Half(dim, depth - depth // 2, "cuda:1")
        self.n_micro = n_micro

    def __call__(self, batch):
        outputs = []
        pending = None
        for micro in batch.chunk(self.n_micro):
            hidden = self.first(micro.to(self.first.device, non_blocking=True))
            moved = hidden.to(self.second.device, non_blocking=True)
            if pending is not None:
                outputs.append(self.second(pending))
            pending = moved
        outputs.append(self.second(pending))
        return torch.cat(outputs)


class Evaluator:
    def __init__(self, model, dim):
        self.model = model
        self.weight = torch.randn(dim, device="cuda:1")
        self.total = torch.zeros((), device="cuda:1")
        self.count = 0

    def add(self, batch):
        out = self.model(batch)
        self.total += (out @ self.weight).sigmoid().sum()
        self.count += out.shape[0]

    def value(self):
        return self.total.item() / self.count


@torch.inference_mode()
def main():
    dim = 2048
    model = SplitModel(dim, depth=12, n_micro=4)
    evaluator = Evaluator(model, dim)
    for _ in range(20):
        evaluator.add(torch.randn(256, dim).pin_memory())
    print(evaluator.value())


if __name__ == "__main__":
    main()
