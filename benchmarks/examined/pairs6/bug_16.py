"""Sign based updates applied by a CuPy kernel to the parameters of a torch model."""
import cupy as cp
import torch
import torch.nn as nn

sign_update = cp.ElementwiseKernel(
    "float32 grad, float32 lr, float32 beta", "float32 weight, float32 moment",
    """
    moment = beta * moment + (1.0f - beta) * grad;
    weight -= lr * ((moment > 0) - (moment < 0));
    """,
    "sign_update")


class CupySignum:
    def __init__(self, params, lr=1e-4, beta=0.9):
        self.params = [p for p in params]
        self.lr, self.beta = lr, beta
        self.weights = [cp.asarray(p.detach()) for p in self.params]
        for p in self.params:
            p.grad = torch.zeros_like(p)
        self.grads = [cp.asarray(p.grad) for p in self.params]
        self.moments = [cp.zeros_like(w) for w in self.weights]
        self.stream = cp.cuda.Stream(non_blocking=True)

    def step(self):
        with self.stream:
            for w, g, m in zip(self.weights, self.grads, self.moments):
                sign_update(g, self.lr, self.beta, w, m)

    def zero_grad(self):
        for p in self.params:
            p.grad.zero_()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
    optimizer = CupySignum(model.parameters())
    criterion = nn.CrossEntropyLoss()
    for step in range(1000):
        x = torch.randn(512, 784, device="cuda")
        y = torch.randint(0, 10, (512,), device="cuda")
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())


if __name__ == "__main__":
    main()
