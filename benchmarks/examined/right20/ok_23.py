import torch
from torch import nn


class HostAdam:
    """Adam on the CPU; gradients come down during backward, weights go up in step()."""

    def __init__(self, model, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        self.model, self.lr, self.betas, self.eps = model, lr, betas, eps
        self.side = torch.cuda.Stream()
        self.grad, self.weight, self.state, self.arrived = {}, {}, {}, {}
        self.t = 0
        for name, p in model.named_parameters():
            self.grad[name] = torch.zeros(p.shape, pin_memory=True)
            self.weight[name] = p.detach().cpu().pin_memory()
            self.state[name] = (torch.zeros(p.shape), torch.zeros(p.shape))
            p.register_post_accumulate_grad_hook(self._hook(name))

    def _hook(self, name):
        def on_grad(p):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.grad[name].copy_(p.grad, non_blocking=True)
                self.arrived[name] = self.side.record_event()

        return on_grad

    def _update(self, name):
        g, w = self.grad[name], self.weight[name]
        m, v = self.state[name]
        b1, b2 = self.betas
        m.mul_(b1).add_(g, alpha=1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        rate = self.lr * (1 - b2**self.t) ** 0.5 / (1 - b1**self.t)
        w.addcdiv_(m, v.sqrt().add_(self.eps), value=-rate)

    @torch.no_grad()
    def step(self):
        self.t += 1
        here = torch.cuda.current_stream()
        self.side.wait_stream(here)
        for name, p in sorted(self.model.named_parameters(), key=lambda kv: -kv[1].numel()):
            self.arrived.pop(name).synchronize()
            self._update(name)
            with torch.cuda.stream(self.side):
                p.copy_(self.weight[name], non_blocking=True)
        here.wait_stream(self.side)

    def zero_grad(self):
        for p in self.model.parameters():
            p.grad = None


def main(steps=40):
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)).cuda()
    opt = HostAdam(model)
    for step in range(steps):
        x = torch.randn(256, 64, device="cuda")
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 9:
            print(step, loss.item())


if __name__ == "__main__":
    main()
