"""Momentum SGD on the host for a model that trains on the device."""
import numpy as np
import torch
import torch.nn as nn


class HostMomentum:
    """Keeps weights and momentum in NumPy and uploads the new weights."""

    def __init__(self, params, lr=1e-2, beta=0.9):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.beta = lr, beta
        self.down = torch.cuda.Stream()
        self.up = torch.cuda.Stream()
        self.uploaded = torch.cuda.Event()
        self.grads = [torch.empty(p.shape, pin_memory=True) for p in self.params]
        self.weights = [p.detach().cpu().pin_memory() for p in self.params]
        self.velocity = [np.zeros(tuple(p.shape), dtype=np.float32) for p in self.params]

    def _fetch_gradients(self):
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            for param, host in zip(self.params, self.grads):
                host.copy_(param.grad, non_blocking=True)
        self.down.synchronize()

    def _upload_weights(self):
        current = torch.cuda.current_stream()
        self.up.wait_stream(current)
        with torch.cuda.stream(self.up):
            for param, host in zip(self.params, self.weights):
                param.data.copy_(host, non_blocking=True)
            self.uploaded.record()
        current.wait_event(self.uploaded)

    def step(self):
        self._fetch_gradients()
        self.uploaded.synchronize()
        for grad, weight, velocity in zip(self.grads, self.weights, self.velocity):
            velocity *= self.beta
            velocity += grad.numpy()
            weight.numpy()[...] -= self.lr * velocity
        self._upload_weights()
        for param in self.params:
            param.grad = None


def main(steps=200):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
    optimizer = HostMomentum(model.parameters())
    for step in range(steps):
        x = torch.randn(512, 256, device="cuda")
        loss = (model(x) - x.sum(dim=1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
