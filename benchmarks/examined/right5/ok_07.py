import torch
from torch import nn


class CPUAdam:
    """Adam on the host for parameters kept on the GPU."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.grad_buf = [torch.empty_like(p, device="cpu").pin_memory() for p in self.params]
        self.master = [p.detach().cpu().pin_memory() for p in self.params]
        self.m = [torch.zeros_like(w) for w in self.master]
        self.v = [torch.zeros_like(w) for w in self.master]
        self.t = 0
        self._index = {p: i for i, p in enumerate(self.params)}
        self._pending = []
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        i = self._index[p]
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            self.grad_buf[i].copy_(p.grad, non_blocking=True)
            p.grad.record_stream(self.d2h_stream)
            self._pending.append((i, self.d2h_stream.record_event()))
        p.grad = None

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        self.h2d_stream.wait_stream(torch.cuda.current_stream())
        for i, ready in self._pending:
            ready.synchronize()
            g, w = self.grad_buf[i], self.master[i]
            self.m[i].mul_(b1).add_(g, alpha=1 - b1)
            self.v[i].mul_(b2).addcmul_(g, g, value=1 - b2)
            denom = (self.v[i] / (1 - b2 ** self.t)).sqrt_().add_(self.eps)
            w.addcdiv_(self.m[i], denom, value=-self.lr / (1 - b1 ** self.t))
            with torch.cuda.stream(self.h2d_stream), torch.no_grad():
                self.params[i].copy_(w, non_blocking=True)
        self._pending.clear()
        self.h2d_stream.synchronize()


def main():
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
    opt = CPUAdam(model.parameters())
    for _ in range(50):
        x = torch.randn(256, 512, device="cuda")
        y = torch.randint(0, 10, (256,), device="cuda")
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()


if __name__ == "__main__":
    main()
