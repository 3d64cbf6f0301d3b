"""Hybrid optimizer: fp32 Adam state lives on the host, weights on the GPU."""
import torch
import torch.nn as nn


class ParamSlot:
    """GPU parameter with its pinned master copy and pinned gradient."""

    def __init__(self, param):
        self.param = param
        self.master = torch.empty(param.shape, dtype=torch.float32, pin_memory=True)
        self.master.copy_(param.detach())
        self.grad = torch.zeros(param.shape, dtype=torch.float32, pin_memory=True)
        self.exp_avg = torch.zeros_like(self.master)
        self.exp_avg_sq = torch.zeros_like(self.master)


class HybridDeviceAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.slots = [ParamSlot(p) for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0
        self._d2h_stream = torch.cuda.Stream()
        self._h2d_stream = torch.cuda.Stream()
        self._post_step_hooks = [self._copy_back]

    def _fetch_grads(self):
        self._d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._d2h_stream):
            for slot in self.slots:
                slot.grad.copy_(slot.param.grad, non_blocking=True)
                slot.param.grad.record_stream(self._d2h_stream)
        return self._d2h_stream.record_event()

    def _host_adam(self, slot):
        b1, b2 = self.betas
        slot.exp_avg.mul_(b1).add_(slot.grad, alpha=1 - b1)
        slot.exp_avg_sq.mul_(b2).addcmul_(slot.grad, slot.grad, value=1 - b2)
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        denom = slot.exp_avg_sq.div(c2).sqrt_().add_(self.eps)
        slot.master.addcdiv_(slot.exp_avg, denom, value=-self.lr / c1)

    @torch.no_grad()
    def _copy_back(self):
        self._h2d_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._h2d_stream):
            for slot in self.slots:
                slot.param.data.copy_(slot.master, non_blocking=True)
        event = self._d2h_stream.record_event()
        torch.cuda.current_stream().wait_event(event)

    @torch.no_grad()
    def step(self):
        self.t += 1
        grads_landed = self._fetch_grads()
        self._h2d_stream.synchronize()
        grads_landed.synchronize()
        for slot in self.slots:
            self._host_adam(slot)
        for hook in self._post_step_hooks:
            hook()

    def zero_grad(self):
        for slot in self.slots:
            slot.param.grad = None


class Mlp(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Trainer:
    def __init__(self, width=2048, depth=8):
        self.model = Mlp(width, depth).cuda()
        self.optim = HybridDeviceAdam(self.model.parameters())
        self.history = []

    def train_step(self, x, y):
        self.optim.zero_grad()
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        self.optim.step()
        self.history.append(loss.detach())

    def fit(self, batches):
        for x, y in batches:
            self.train_step(x, y)
        torch.cuda.synchronize()
        return torch.stack(self.history).cpu()


if __name__ == "__main__":
    torch.manual_seed(1)
    data = [(torch.randn(4096, 2048, device="cuda"), torch.randn(4096, 2048, device="cuda")) for _ in range(4)]
    curve = Trainer().fit(data * 5)
    print("first", float(curve[0]), "last", float(curve[-1]))
