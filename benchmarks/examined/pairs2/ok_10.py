"""Training step captured as one CUDA graph."""
import torch
import torch.nn as nn


class GraphedStep:
    def __init__(self, model, optimizer, loss_fn, x, y, warmup=3):
        self.model, self.optimizer, self.loss_fn = model, optimizer, loss_fn
        self.static_x = x.clone()
        self.static_y = y.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.static_loss = self._step()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_fn(self.model(self.static_x), self.static_y)
        loss.backward()
        self.optimizer.step()
        return loss

    def __call__(self, x, y):
        self.static_x.copy_(x)
        self.static_y.copy_(y)
        self.graph.replay()
        return self.static_loss.detach().clone()


def batches(n, device):
    for _ in range(n):
        yield torch.randn(128, 256, device=device), torch.randint(0, 10, (128,), device=device)


def main():
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    lr = torch.tensor(1e-3, device=device)
    opt = torch.optim.Adam(model.parameters(), lr=lr, capturable=True)
    step = GraphedStep(model, opt, nn.CrossEntropyLoss(), *next(batches(1, device)))
    losses = []
    for i, (x, y) in enumerate(batches(500, device)):
        lr.fill_(1e-3 * (1 - i / 500))
        losses.append(step(x, y))
    print(torch.stack(losses).view(10, -1).mean(1).tolist())


if __name__ == "__main__":
    main()
