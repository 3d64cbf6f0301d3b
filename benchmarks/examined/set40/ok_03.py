"""Host-side Adam in a worker thread; gradients and weights share one transfer stream."""
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class HostGroup:
    """A flat piece of the model: pinned gradient, pinned master, Adam moments."""

    def __init__(self, params):
        self.params = params
        numel = sum(p.numel() for p in params)
        self.grad = torch.zeros(numel, pin_memory=True)
        self.master = torch.empty(numel, pin_memory=True)
        self.m, self.v = torch.zeros(numel), torch.zeros(numel)
        self.master.copy_(torch.cat([p.detach().reshape(-1) for p in params]))
        self.grads_landed = torch.cuda.Event()
        self.weights_sent = torch.cuda.Event()

    def pieces(self, flat):
        offset = 0
        for p in self.params:
            yield p, flat[offset:offset + p.numel()].view_as(p)
            offset += p.numel()


class OffloadedAdam:
    def __init__(self, params, groups=4, lr=1e-3):
        params = list(params)
        size = (len(params) + groups - 1) // groups
        self.groups = [HostGroup(params[i:i + size]) for i in range(0, len(params), size)]
        self.lr, self.t = lr, 0
        self.xfer = torch.cuda.Stream()
        self.worker = ThreadPoolExecutor(max_workers=1)

    def _update(self, group, t):
        group.grads_landed.synchronize()
        group.m.mul_(0.9).add_(group.grad, alpha=0.1)
        group.v.mul_(0.999).addcmul_(group.grad, group.grad, value=0.001)
        denom = (group.v / (1 - 0.999 ** t)).sqrt_().add_(1e-8)
        group.master.addcdiv_(group.m, denom, value=-self.lr / (1 - 0.9 ** t))

    def _send(self, group):
        with torch.cuda.stream(self.xfer), torch.no_grad():
            for p, piece in group.pieces(group.master):
                p.data.copy_(piece, non_blocking=True)
            group.weights_sent.record()

    def _job(self, group, t):
        self._update(group, t)
        self._send(group)

    def step(self):
        self.t += 1
        main = torch.cuda.current_stream()
        self.xfer.wait_stream(main)
        with torch.cuda.stream(self.xfer):
            for group in self.groups:
                for p, piece in group.pieces(group.grad):
                    piece.copy_(p.grad, non_blocking=True)
                group.grads_landed.record()
        jobs = [self.worker.submit(self._job, g, self.t) for g in self.groups]
        for group, job in zip(self.groups, jobs):
            job.result()
            main.wait_event(group.weights_sent)

    def zero_grad(self):
        for group in self.groups:
            for p in group.params:
                if p.grad is not None:
                    p.grad.zero_()

    def close(self):
        self.worker.shutdown()


def main(steps=12):
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(8))).cuda()
    opt = OffloadedAdam(net.parameters())
    x = torch.randn(4096, 2048, device="cuda")
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    opt.close()
    print([round(v, 5) for v in torch.stack(losses).tolist()])


if __name__ == "__main__":
    main()
