"""Momentum optimizer backed by a fused raw kernel, driven from a training loop on its own stream."""
import cupy as cp
import numpy as np
import torch
import torch.nn as nn

_SRC = r"""
extern "C" __global__
void fused_momentum(float* p, const float* g, float* m,
                    const float lr, const float beta, const float wd, const long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = g[i] + wd * p[i];
    float mom = beta * m[i] + grad;
    m[i] = mom;
    p[i] -= lr * mom;
}
"""
_kernel = cp.RawKernel(_SRC, "fused_momentum")


def launch(p, g, m, lr, beta, wd):
    n = p.numel()
    block = 256
    grid = (n + block - 1) // block
    _kernel((grid,), (block,), (
        p.data_ptr(), g.data_ptr(), m.data_ptr(),
        np.float32(lr), np.float32(beta), np.float32(wd), np.int64(n)))


class FusedMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, beta=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, beta=beta, weight_decay=weight_decay))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["momentum"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                launch(p, p.grad, self.state[p]["momentum"],
                       group["lr"], group["beta"], group["weight_decay"])


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.stream = torch.cuda.Stream()
        self.history = []

    def train_step(self, x, y):
        pred = self.model(x)
        loss = nn.functional.mse_loss(pred, y)
        loss.backward()
        self.optimizer.step()
        for p in self.model.parameters():
            p.grad.zero_()
        self.history.append(loss.detach())

    def fit(self, batches):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for x, y in batches:
                self.train_step(x, y)
        torch.cuda.current_stream().wait_stream(self.stream)
        return torch.stack(self.history)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 4096), nn.GELU(), nn.Linear(4096, 2048)).cuda()
    opt = FusedMomentum(model.parameters(), lr=1e-3, weight_decay=1e-4)
    batches = [(torch.randn(512, 2048, device="cuda"), torch.randn(512, 2048, device="cuda"))
               for _ in range(16)]
    torch.cuda.synchronize()
    losses = Trainer(model, opt).fit(batches)
    print(losses.tolist())


if __name__ == "__main__":
    main()
