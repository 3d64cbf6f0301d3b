"""Adam on the host with gradients and weights moved over PCIe."""
import torch
import torch.nn as nn


class HostAdam:
    def __init__(self, params, lr=1e-4):
        self.device_params = [p for p in params if p.requires_grad]
        self.master = [p.detach().float().cpu().pin_memory() for p in self.device_params]
        self.grads = [torch.zeros_like(m).pin_memory() for m in self.master]
        for m, g in zip(self.master, self.grads):
            m.requires_grad_(True)
            m.grad = g
        self.inner = torch.optim.Adam(self.master, lr=lr, foreach=False)
        self.copy_stream = torch.cuda.Stream()
        self.grads_ready = torch.cuda.Event()

    @torch.no_grad()
    def step(self):
        compute = torch.cuda.current_stream()
        self.copy_stream.wait_stream(compute)
        with torch.cuda.stream(self.copy_stream):
            for p, g in zip(self.device_params, self.grads):
                g.copy_(p.grad, non_blocking=True)
            self.grads_ready.record()
        self.grads_ready.synchronize()
        with torch.enable_grad():
            self.inner.step()
        with torch.cuda.stream(self.copy_stream):
            for p, m in zip(self.device_params, self.master):
                p.copy_(m, non_blocking=True)
        compute.wait_stream(self.copy_stream)

    def zero_grad(self):
        for p in self.device_params:
            p.grad = None


def main():
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).cuda()
    opt = HostAdam(model.parameters())
    for _ in range(100):
        x = torch.randn(32, 4096, device="cuda")
        model(x).pow(2).mean().backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
