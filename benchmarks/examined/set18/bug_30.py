import torch
from torch import nn


class GraphedLayer:
    """Forward and backward of a module captured in two graphs that share a pool."""

    def __init__(self, module: nn.Module, sample: torch.Tensor, warmup: int = 3):
        self.module = module
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.static_input = sample.clone().requires_grad_()
        self.fwd_graph = torch.cuda.CUDAGraph()
        self.bwd_graph = torch.cuda.CUDAGraph()
        self._warmup(warmup)
        self._capture()

    def _warmup(self, iterations: int):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(iterations):
                out = self.module(self.static_input)
                torch.autograd.grad(
                    out, [self.static_input, *self.params], grad_outputs=torch.ones_like(out)
                )
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self):
        pool = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(self.fwd_graph, pool=pool):
            self.static_output = self.module(self.static_input)
        self.static_grad_output = torch.empty_like(self.static_output)
        with torch.cuda.graph(self.bwd_graph, pool=pool):
            grads = torch.autograd.grad(
                self.static_output,
                [self.static_input, *self.params],
                grad_outputs=self.static_grad_output,
            )
        self.static_grad_input, *self.static_param_grads = grads
        self.static_output = self.static_output.detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.static_input.copy_(x)
        self.fwd_graph.replay()
        return self.static_output.clone()

    def backward(self, grad_output: torch.Tensor):
        self.static_grad_output.copy_(grad_output)
        self.bwd_graph.replay()
        grad_input = self.static_grad_input.clone()
        return grad_input, [g.detach() for g in self.static_param_grads]


class GradientAccumulator:
    """Collects the parameter gradients of the micro-batches of one step."""

    def __init__(self, params):
        self.params = params
        self.pending: list[list[torch.Tensor]] = []

    def add(self, grads):
        self.pending.append(grads)

    def finish(self):
        scale = 1.0 / len(self.pending)
        for index, p in enumerate(self.params):
            p.grad = torch.stack([grads[index] for grads in self.pending]).sum(0).mul_(scale)
        self.pending.clear()


class Stage:
    def __init__(self, dim: int, micro_batch: int, device: torch.device):
        block = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)).to(device)
        sample = torch.randn(micro_batch, dim, device=device)
        self.layer = GraphedLayer(block, sample)
        self.accumulator = GradientAccumulator(self.layer.params)
        self.optimizer = torch.optim.AdamW(self.layer.params, lr=1e-3)

    def train_step(self, micro_batches, targets) -> torch.Tensor:
        total = torch.zeros((), device="cuda")
        for x, target in zip(micro_batches, targets):
            out = self.layer.forward(x)
            diff = out - target
            total += diff.square().mean()
            _, grads = self.layer.backward(diff * (2.0 / diff.numel()))
            self.accumulator.add(grads)
        self.accumulator.finish()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total / len(micro_batches)


def main(steps=50, micro_batches=4, micro_batch=64, dim=512):
    torch.manual_seed(0)
    device = torch.device("cuda")
    stage = Stage(dim, micro_batch, device)
    data = [torch.randn(micro_batch, dim, device=device) for _ in range(micro_batches)]
    target = [torch.tanh(x.roll(1, dims=1)) for x in data]
    for step in range(steps):
        loss = stage.train_step(data, target)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
