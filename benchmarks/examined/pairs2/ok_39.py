"""Captured update with a decaying EMA coefficient."""
import torch
import torch.nn as nn


class CapturedEmaStep:
    def __init__(self, model, shadow, batch):
        self.params = list(model.parameters())
        self.shadow = list(shadow.parameters())
        self.model = model
        self.opt = torch.optim.SGD(self.params, lr=0.05)
        self.x = torch.zeros_like(batch)
        self.keep = torch.zeros((), device=batch.device)
        self.graph = torch.cuda.CUDAGraph()
        self.step = 0
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._body()
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self._body()

    def _body(self):
        self.opt.zero_grad(set_to_none=True)
        loss = (self.model(self.x) - self.x).pow(2).mean()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for s, p in zip(self.shadow, self.params):
                s.copy_(p + (s - p) * self.keep)

    def run(self, x):
        self.step += 1
        self.keep.fill_(min(0.999, (1 + self.step) / (10 + self.step)))
        self.x.copy_(x)
        self.graph.replay()


def main():
    def build():
        return nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 256)).cuda()

    model, shadow = build(), build().requires_grad_(False)
    shadow.load_state_dict(model.state_dict())
    step = CapturedEmaStep(model, shadow, torch.zeros(512, 256, device="cuda"))
    for _ in range(1000):
        step.run(torch.randn(512, 256, device="cuda"))
    x = torch.randn(512, 256, device="cuda")
    with torch.no_grad():
        print((shadow(x) - x).pow(2).mean().item())


if __name__ == "__main__":
    main()
