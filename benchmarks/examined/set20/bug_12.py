"""CPU Adam with tiled, double-buffered upload of the updated half parameters."""
import torch
import torch.nn as nn

TILE = 1 << 22


class CPUAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.lr, self.betas, self.eps = lr, betas, eps
        self.params = list(params)
        self.state = [
            {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
            for p in self.params
        ]
        self.t = 0
        self.buf_index = 0
        self.doubled_buffer = [
            torch.empty(TILE, dtype=torch.float16, pin_memory=True) for _ in range(2)
        ]
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def _update_tile(self, p, g, state, lo, hi):
        b1, b2 = self.betas
        m, v = state["exp_avg"][lo:hi], state["exp_avg_sq"][lo:hi]
        grad = g[lo:hi]
        m.mul_(b1).add_(grad, alpha=1 - b1)
        v.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        mhat = m / (1 - b1 ** self.t)
        vhat = v / (1 - b2 ** self.t)
        p[lo:hi].addcdiv_(mhat, vhat.sqrt_().add_(self.eps), value=-self.lr)

    @torch.no_grad()
    def step(self, fp16_param_groups):
        self.t += 1
        for s in self.streams:
            s.wait_stream(torch.cuda.current_stream())
        for p, state, dev in zip(self.params, self.state, fp16_param_groups):
            n = p.numel()
            for lo in range(0, n, TILE):
                hi = min(lo + TILE, n)
                self._update_tile(p, p.grad, state, lo, hi)
                stream = self.streams[self.buf_index]
                stream.synchronize()
                host = self.doubled_buffer[self.buf_index][: hi - lo]
                host.copy_(p[lo:hi])
                with torch.cuda.stream(stream):
                    dev[lo:hi].copy_(host, non_blocking=True)
                self.buf_index ^= 1


class OffloadOptimizer:
    def __init__(self, model, lr):
        self.model = model
        self.fp16_params = [p for p in model.parameters() if p.requires_grad]
        self.flat = []
        self.master = []
        for p in self.fp16_params:
            flat = p.data.view(-1)
            self.flat.append(flat)
            self.master.append(flat.float().cpu())
        self.grad_host = [
            torch.empty(m.numel(), dtype=torch.float16, pin_memory=True)
            for m in self.master
        ]
        self.optimizer = CPUAdam(self.master, lr=lr)

    def backward(self, loss):
        loss.backward()
        for p, host in zip(self.fp16_params, self.grad_host):
            host.copy_(p.grad.view(-1), non_blocking=True)
        torch.cuda.current_stream().synchronize()
        for p, m, host in zip(self.fp16_params, self.master, self.grad_host):
            m.grad = host.float()
            p.grad = None

    def step(self):
        self.optimizer.step(self.flat)


def train(loader, hidden=8192, depth=4, lr=1e-4):
    model = nn.Sequential(*[nn.Linear(hidden, hidden) for _ in range(depth)]).half().cuda()
    opt = OffloadOptimizer(model, lr)
    for x, y in loader:
        out = model(x.half().cuda())
        loss = nn.functional.mse_loss(out.float(), y.cuda())
        opt.backward(loss)
        opt.step()
    return model
