"""Adam with master weights and moments in host memory."""
import torch


class HostAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.device = self.params[0].device
        self.io = torch.cuda.Stream(self.device)
        self.steps = 0
        self.master = [p.detach().float().cpu() for p in self.params]
        self.exp = [torch.zeros_like(m) for m in self.master]
        self.sq = [torch.zeros_like(m) for m in self.master]
        self.grads = [
            torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params
        ]
        self.staged = [
            torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params
        ]
        self.arrived = [torch.cuda.Event() for _ in self.params]

    def _host_update(self, i):
        b1, b2 = self.betas
        g = self.grads[i].float()
        self.exp[i].mul_(b1).add_(g, alpha=1 - b1)
        self.sq[i].mul_(b2).addcmul_(g, g, value=1 - b2)
        m = self.exp[i] / (1 - b1**self.steps)
        v = self.sq[i] / (1 - b2**self.steps)
        self.master[i].addcdiv_(m, v.sqrt_().add_(self.eps), value=-self.lr)
        self.staged[i].copy_(self.master[i])

    @torch.no_grad()
    def step(self):
        compute = torch.cuda.current_stream(self.device)
        live = [i for i, p in enumerate(self.params) if p.grad is not None]
        if not live:
            return
        self.steps += 1
        self.io.wait_stream(compute)
        try:
            with torch.cuda.stream(self.io):
                for i in live:
                    grad = self.params[i].grad
                    self.grads[i].copy_(grad, non_blocking=True)
                    grad.record_stream(self.io)
                    self.arrived[i].record(self.io)
                for i in live:
                    self.arrived[i].synchronize()
                    self._host_update(i)
                    self.params[i].copy_(self.staged[i], non_blocking=True)
        finally:
            compute.wait_stream(self.io)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def fit(model, batches, loss_fn, epochs=1):
    optimizer = HostAdam(model.parameters())
    trace = []
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            trace.append(loss.item())
    return trace
