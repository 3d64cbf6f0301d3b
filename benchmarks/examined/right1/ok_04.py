"""Gradients stream to the host during backward; a CPU optimizer owns the master weights."""
import torch
from torch import nn


class HostAdamW:
    def __init__(self, module, lr):
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.order = {p: i for i, p in enumerate(self.params)}
        self.master = [p.detach().cpu().pin_memory() for p in self.params]
        self.host_grads = [torch.empty_like(m).pin_memory() for m in self.master]
        for m, g in zip(self.master, self.host_grads):
            m.requires_grad_(True)
            m.grad = g
        self.opt = torch.optim.AdamW(self.master, lr=lr)
        self.drain = torch.cuda.Stream()
        self.landing = {}
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._start_download)

    def _start_download(self, p):
        i = self.order[p]
        grad, p.grad = p.grad, None
        self.drain.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.drain):
            self.host_grads[i].copy_(grad, non_blocking=True)
            landed = torch.cuda.Event()
            landed.record()
        self.landing[i] = (landed, grad)

    @torch.no_grad()
    def step(self):
        for i in range(len(self.params)):
            landed, grad = self.landing.pop(i)
            landed.synchronize()
            del grad
        self.opt.step()
        for p, m in zip(self.params, self.master):
            p.copy_(m, non_blocking=True)


class Regressor(nn.Module):
    def __init__(self, width=2048, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).squeeze(-1)


def main(steps=50):
    torch.manual_seed(0)
    model = Regressor().cuda()
    opt = HostAdamW(model, lr=1e-4)
    for step in range(steps):
        x = torch.randn(256, 2048, device="cuda")
        loss = (model(x) - x.mean(-1)).square().mean()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
