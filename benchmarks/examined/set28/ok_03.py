import math

import torch


class OffloadedAdamW:
    """AdamW whose master weights and moments live in host memory."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.step_count = 0
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.slots = []
        for p in self.params:
            master = p.detach().float().cpu()
            self.slots.append(
                dict(
                    master=master,
                    exp_avg=torch.zeros_like(master),
                    exp_avg_sq=torch.zeros_like(master),
                    grad=torch.empty(p.shape, dtype=torch.float32, pin_memory=True),
                    staged=torch.empty(p.shape, dtype=p.dtype, pin_memory=True),
                    grad_ready=torch.cuda.Event(),
                    uploaded=torch.cuda.Event(),
                )
            )

    @torch.no_grad()
    def step(self):
        compute = torch.cuda.current_stream()
        self.step_count += 1
        self.d2h.wait_stream(compute)
        self.h2d.wait_stream(compute)

        with torch.cuda.stream(self.d2h):
            for p, slot in zip(self.params, self.slots):
                if p.grad is None:
                    continue
                p.grad.record_stream(self.d2h)
                slot["grad"].copy_(p.grad, non_blocking=True)
                slot["grad_ready"].record(self.d2h)

        for p, slot in zip(self.params, self.slots):
            if p.grad is None:
                continue
            slot["grad_ready"].synchronize()
            self._adamw(slot)
            slot["uploaded"].synchronize()
            slot["staged"].copy_(slot["master"])
            with torch.cuda.stream(self.h2d):
                p.data.copy_(slot["staged"], non_blocking=True)
                slot["uploaded"].record(self.h2d)

        compute.wait_stream(self.h2d)

    def _adamw(self, slot):
        beta1, beta2 = self.betas
        g, m, v, w = slot["grad"], slot["exp_avg"], slot["exp_avg_sq"], slot["master"]
        w.mul_(1.0 - self.lr * self.weight_decay)
        m.mul_(beta1).add_(g, alpha=1.0 - beta1)
        v.mul_(beta2).addcmul_(g, g, value=1.0 - beta2)
        bias1 = 1.0 - beta1**self.step_count
        bias2 = 1.0 - beta2**self.step_count
        denom = v.sqrt().div_(math.sqrt(bias2)).add_(self.eps)
        w.addcdiv_(m, denom, value=-self.lr / bias1)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def train(model, batches, loss_fn):
    opt = OffloadedAdamW(model.parameters())
    for x, y in batches:
        loss = loss_fn(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        opt.step()
        opt.zero_grad()
    torch.cuda.synchronize()
    return [slot["master"] for slot in opt.slots]
