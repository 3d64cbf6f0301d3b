"""Graph-captured gradient computation for a small regression model."""
import torch
import torch.nn as nn


class CapturedGradients:
    def __init__(self, model, batch, features):
        self.model = model
        self.inputs = torch.zeros(batch, features, device="cuda")
        self.targets = torch.zeros(batch, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self._warmup()
        with torch.cuda.graph(self.graph):
            self.loss = self._compute()

    def _compute(self):
        loss = nn.functional.smooth_l1_loss(self.model(self.inputs).squeeze(-1), self.targets)
        loss.backward()
        return loss.detach()

    def _warmup(self):
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            for _ in range(3):
                self._compute()
                for p in self.model.parameters():
                    p.grad = None
        torch.cuda.current_stream().wait_stream(s)

    def __call__(self, inputs, targets):
        self.inputs.copy_(inputs, non_blocking=True)
        self.targets.copy_(targets, non_blocking=True)
        self.graph.replay()
        return self.loss


def synthetic(n, batch, features):
    for _ in range(n):
        x = torch.randn(batch, features, device="cuda")
        yield x, x[:, 0] * 2


def main():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()
    compute = CapturedGradients(model, 256, 64)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(synthetic(2000, 256, 64)):
        opt.zero_grad()
        loss = compute(x, y)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if i % 200 == 0:
            print(i, loss.item())


if __name__ == "__main__":
    main()
