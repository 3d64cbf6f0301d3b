"""fp32 gradient accumulation next to a bf16 model."""
import torch
import torch.nn as nn


class MainGradAccumulator:
    def __init__(self, module):
        self.stream = torch.cuda.Stream()
        self.params = list(module.parameters())
        for p in self.params:
            p.main_grad = torch.zeros(p.shape, dtype=torch.float32, device=p.device)
            p.register_post_accumulate_grad_hook(self._accumulate)
        self.stream.wait_stream(torch.cuda.current_stream())

    def _accumulate(self, p):
        grad, p.grad = p.grad, None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            p.main_grad.add_(grad)
        grad.record_stream(self.stream)

    def take(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return [p.main_grad for p in self.params]

    def zero(self):
        torch._foreach_zero_(self.take())
        self.stream.wait_stream(torch.cuda.current_stream())


class MasterSGD:
    def __init__(self, params, lr):
        self.params, self.lr = params, lr
        self.master = [p.detach().float() for p in params]

    @torch.no_grad()
    def step(self, grads, scale):
        torch._foreach_add_(self.master, grads, alpha=-self.lr * scale)
        torch._foreach_copy_(self.params, self.master)


def main(accum=4):
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to("cuda", torch.bfloat16)
    acc = MainGradAccumulator(model)
    opt = MasterSGD(acc.params, lr=1e-3)
    for step in range(200):
        for _ in range(accum):
            x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
            model(x).float().pow(2).mean().backward()
        opt.step(acc.take(), 1.0 / accum)
        acc.zero()


if __name__ == "__main__":
    main()
