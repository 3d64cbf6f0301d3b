"""CPU-offloaded Adam: gradients go to the host, updated weights come back."""
import torch
from torch import nn


class CPUOffloadAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.master = [p.detach().cpu().float().pin_memory() for p in self.params]
        self.grad = [torch.empty_like(m).pin_memory() for m in self.master]
        self.exp_avg = [torch.zeros_like(m, pin_memory=False) for m in self.master]
        self.exp_sq = [torch.zeros_like(m, pin_memory=False) for m in self.master]
        self.d2h = torch.cuda.Stream()
        self.t = 0

    def _fetch_grads(self):
        self.d2h.wait_stream(torch.cuda.current_stream())
        events = []
        with torch.cuda.stream(self.d2h):
            for p, host in zip(self.params, self.grad):
                host.copy_(p.grad, non_blocking=True)
                events.append(self.d2h.record_event())
        return events

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        events = self._fetch_grads()
        for i, event in enumerate(events):
            event.synchronize()
            g, m, v = self.grad[i], self.exp_avg[i], self.exp_sq[i]
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            denom = (v / (1 - b2 ** self.t)).sqrt_().add_(self.eps)
            self.master[i].addcdiv_(m, denom, value=-self.lr / (1 - b1 ** self.t))
            self.params[i].copy_(self.master[i], non_blocking=True)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def main():
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    opt = CPUOffloadAdam(model.parameters())
    for step in range(100):
        x = torch.randn(64, 1024, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 20 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
