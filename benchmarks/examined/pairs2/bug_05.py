"""SGD with momentum kept in host memory."""
import torch
import torch.nn as nn


class OffloadedMomentum:
    def __init__(self, model, lr, momentum=0.9):
        self.lr, self.momentum = lr, momentum
        self.params = list(model.parameters())
        self.host_weight = [p.detach().cpu().pin_memory() for p in self.params]
        self.host_grad = [torch.empty(p.shape, pin_memory=True) for p in self.params]
        self.velocity = [torch.zeros(p.shape) for p in self.params]
        self.transfer = torch.cuda.Stream()
        self.arrived = torch.cuda.Event()

    def _download(self):
        self.transfer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.transfer):
            self.arrived.record()
            for dst, p in zip(self.host_grad, self.params):
                dst.copy_(p.grad, non_blocking=True)

    def _upload(self):
        with torch.cuda.stream(self.transfer):
            for p, w in zip(self.params, self.host_weight):
                p.copy_(w, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.transfer)

    @torch.no_grad()
    def step(self):
        self._download()
        self.arrived.synchronize()
        for w, g, v in zip(self.host_weight, self.host_grad, self.velocity):
            v.mul_(self.momentum).add_(g)
            w.sub_(v, alpha=self.lr)
        self._upload()


def fit(epochs=3, batches=50):
    model = nn.Sequential(nn.Linear(1024, 8192), nn.ReLU(), nn.Linear(8192, 1024)).cuda()
    opt = OffloadedMomentum(model, lr=1e-3)
    for _ in range(epochs):
        for _ in range(batches):
            x = torch.randn(64, 1024, device="cuda")
            model.zero_grad(set_to_none=False)
            (model(x) - x).pow(2).mean().backward()
            opt.step()


fit()
