"""Gradient accumulation into fp32 on a helper stream."""
import torch
from torch import nn


class MainGrads:
    def __init__(self, model: nn.Module):
        self.stream = torch.cuda.Stream()
        self.main = {}
        for p in model.parameters():
            self.main[p] = torch.zeros(p.shape, device="cuda")
            p.register_post_accumulate_grad_hook(self._fold)
        self.stream.wait_stream(torch.cuda.current_stream())

    def _fold(self, p):
        grad, p.grad = p.grad, None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.main[p].add_(grad)
        grad.record_stream(self.stream)

    def consume(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.main.items()

    def reset(self):
        for g in self.main.values():
            g.zero_()
        self.stream.wait_stream(torch.cuda.current_stream())


class MasterSGD:
    def __init__(self, model, grads: MainGrads, lr=0.01):
        self.grads, self.lr = grads, lr
        self.master = {p: p.detach().float().clone() for p in model.parameters()}

    @torch.no_grad()
    def step(self, micro: int):
        for p, g in self.grads.consume():
            m = self.master[p]
            m.add_(g, alpha=-self.lr / micro)
            p.copy_(m)
        self.grads.reset()


def main():
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda().bfloat16()
    opt = MasterSGD(model, MainGrads(model))
    for _ in range(5):
        for _ in range(4):
            x = torch.randn(32, 256, device="cuda", dtype=torch.bfloat16)
            model(x).float().square().mean().backward()
        opt.step(4)
    print(model[0].weight.float().norm().item())


if __name__ == "__main__":
    main()
