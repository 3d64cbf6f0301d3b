import torch
import torch.nn as nn


class ShardedLinear(nn.Module):
    """Linear layer with a manual weight gradient that is accumulated on a side stream."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) * dim**-0.5, requires_grad=False)
        self.register_buffer("main_grad", torch.zeros(dim, dim))


class TrainStep:
    def __init__(self, dim, depth, batch):
        self.layers = nn.ModuleList(ShardedLinear(dim) for _ in range(depth)).cuda()
        self.x = torch.zeros(batch, dim, device="cuda")
        self.y = torch.zeros(batch, dim, device="cuda")
        self.loss = torch.zeros((), device="cuda")
        self.rs_stream = torch.cuda.Stream()
        self.wgrads = [torch.zeros(dim, dim, device="cuda") for _ in self.layers]
        self.lr = torch.full((), 1e-2, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def _reduce(self, index):
        """Accumulate the weight gradient of one layer off the critical path."""
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            layer = self.layers[index]
            layer.main_grad.add_(self.wgrads[index])

    def _step(self):
        for layer in self.layers:
            layer.main_grad.zero_()
        acts = [self.x]
        for layer in self.layers:
            acts.append(torch.relu(acts[-1] @ layer.weight))
        diff = acts[-1] - self.y
        self.loss.copy_(diff.square().mean())
        grad = 2.0 * diff / diff.numel()
        for i in reversed(range(len(self.layers))):
            grad = grad * (acts[i + 1] > 0)
            torch.matmul(acts[i].t(), grad, out=self.wgrads[i])
            self._reduce(i)
            grad = grad @ self.layers[i].weight.t()
        torch.cuda.current_stream().wait_stream(self.rs_stream)
        for layer in self.layers:
            layer.weight.sub_(self.lr * layer.main_grad)

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self._step()

    @torch.no_grad()
    def __call__(self, x, y, lr):
        self.x.copy_(x)
        self.y.copy_(y)
        self.lr.fill_(lr)
        self.graph.replay()
        return self.loss.clone()


def main():
    step = TrainStep(1024, 6, 256)
    step.capture()
    losses = []
    for i in range(100):
        x = torch.randn(256, 1024, device="cuda")
        losses.append(step(x, x.abs(), 1e-2 * (1 - i / 100)))
    print(torch.stack(losses).tolist()[::20])


if __name__ == "__main__":
    main()
