"""Optimizer-in-backward: every parameter is updated as soon as its gradient is ready."""
import torch
from torch import nn


class OverlappedAdam:
    """Adam whose per-parameter updates run on a stream beside the backward pass."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.stream = torch.cuda.Stream()
        self.state = {}
        self.steps = 0
        for p in params:
            if p.requires_grad:
                self.state[p] = (torch.zeros_like(p), torch.zeros_like(p))
                p.register_post_accumulate_grad_hook(self._update_hook)
        self.stream.wait_stream(torch.cuda.current_stream())

    def begin_step(self):
        self.steps += 1

    @torch.no_grad()
    def _update_hook(self, param):
        grad = param.grad
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            exp_avg, exp_avg_sq = self.state[param]
            beta1, beta2 = self.betas
            exp_avg.lerp_(grad, 1 - beta1)
            exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            bias1 = 1 - beta1 ** self.steps
            bias2 = 1 - beta2 ** self.steps
            denom = (exp_avg_sq / bias2).sqrt_().add_(self.eps)
            param.addcdiv_(exp_avg, denom, value=-self.lr / bias1)
        grad.record_stream(self.stream)
        param.grad = None


class WarmupCosine:
    def __init__(self, optimizer, base_lr, warmup, total):
        self.optimizer = optimizer
        self.base_lr = base_lr
        self.warmup = warmup
        self.total = total
        self.index = 0

    def step(self):
        self.index += 1
        if self.index < self.warmup:
            scale = self.index / self.warmup
        else:
            progress = (self.index - self.warmup) / max(1, self.total - self.warmup)
            scale = 0.5 * (1 + torch.cos(torch.tensor(progress * torch.pi)).item())
        self.optimizer.lr = self.base_lr * scale


class TrainPipeline:
    """Batch upload on a copy stream, forward and backward on the main stream."""

    def __init__(self, model, optimizer, scheduler):
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.memcpy_stream = torch.cuda.Stream()

    def _to_device(self, batch):
        with torch.cuda.stream(self.memcpy_stream):
            moved = [t.pin_memory().to("cuda", non_blocking=True) for t in batch]
        return moved

    def _wait_for_batch(self, batch):
        current = torch.cuda.current_stream()
        current.wait_stream(self.memcpy_stream)
        for t in batch:
            t.record_stream(current)

    def progress(self, batch):
        x, y = self._to_device(batch)
        self._wait_for_batch((x, y))
        self.optimizer.begin_step()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.scheduler.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = OverlappedAdam(model.parameters())
    pipeline = TrainPipeline(model, optimizer, WarmupCosine(optimizer, 1e-3, 10, 100))
    losses = []
    for _ in range(100):
        losses.append(pipeline.progress((torch.randn(1024, 2048), torch.randn(1024, 2048))))
    torch.cuda.synchronize()
    print(torch.stack(losses)[-5:].tolist())


if __name__ == "__main__":
    main()
