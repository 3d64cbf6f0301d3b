"""Distributed optimizer that reduces gradients as soon as they are ready."""
import torch
import torch.distributed as dist


class DistributedOptimizer:
    """Wraps an optimizer and overlaps its all-reduces with the backward pass."""

    def __init__(self, optimizer, backward_passes_per_step=1):
        self.inner = optimizer
        self.passes = backward_passes_per_step
        self._handles = {}
        self._delay = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                self._delay[p] = self.passes
                p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        self._delay[p] -= 1
        if self._delay[p] == 0:
            self._handles[p] = dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True)

    def synchronize(self):
        for p, handle in self._handles.items():
            handle.wait()
            self._delay[p] = self.passes
        self._handles.clear()

    def zero_grad(self):
        for group in self.inner.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.zero_()

    def step(self):
        self.synchronize()
        self.inner.step()


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=lr))
        self.ema = [torch.zeros_like(p) for p in model.parameters()]

    def train_step(self, x, y, skip_above=None):
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        if skip_above is not None and loss.item() > skip_above:
            self.optimizer.zero_grad()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for e, p in zip(self.ema, self.model.parameters()):
            e.lerp_(p.detach(), 0.01)
        return loss


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)).cuda()
    trainer = Trainer(model, 1e-3)
    for step in range(100):
        x = torch.randn(64, 4096, device="cuda")
        trainer.train_step(x, x.flip(1), skip_above=5.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
