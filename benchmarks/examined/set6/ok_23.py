from typing import List, Sequence

import torch


class FactorBranch:
    """Second order statistics of one layer, accumulated on a side stream."""

    def __init__(self, dim: int, stream: torch.cuda.Stream, decay: float = 0.95):
        self.factor = torch.eye(dim, device="cuda")
        self.stream = stream
        self.decay = decay

    def launch(self, activation: torch.Tensor) -> None:
        with torch.cuda.stream(self.stream):
            flat = activation.flatten(0, -2).float()
            self.factor.mul_(self.decay).addmm_(flat.t(), flat, alpha=1 - self.decay)


class SideStreamStatistics:
    def __init__(self, dims: Sequence[int]):
        self.stream = torch.cuda.Stream()
        self.branches: List[FactorBranch] = [FactorBranch(d, self.stream) for d in dims]
        self.in_flight: List[torch.Tensor] = []

    def update(self, activations: Sequence[torch.Tensor]) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        for branch, activation in zip(self.branches, activations):
            branch.launch(activation)
        self.in_flight.extend(activations)

    def join(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)
        self.in_flight.clear()

    def preconditioners(self, damping: float) -> List[torch.Tensor]:
        self.join()
        out = []
        for branch in self.branches:
            eye = torch.eye(branch.factor.size(0), device=branch.factor.device)
            out.append(torch.linalg.inv(branch.factor + damping * eye))
        return out


class MLP(torch.nn.Module):
    def __init__(self, dims: Sequence[int]):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(i, o) for i, o in zip(dims[:-1], dims[1:])
        )

    def forward(self, x):
        inputs = []
        for layer in self.layers:
            inputs.append(x.detach())
            x = torch.relu(layer(x))
        return x, inputs


def train(model: MLP, dims, loader, lr=0.1, damping=1e-3):
    stats = SideStreamStatistics(dims[:-1])
    for x, y in loader:
        out, inputs = model(x.cuda())
        stats.update(inputs)
        del inputs
        loss = torch.nn.functional.mse_loss(out, y.cuda())
        loss.backward()
        with torch.no_grad():
            for layer, inverse in zip(model.layers, stats.preconditioners(damping)):
                layer.weight.sub_(layer.weight.grad @ inverse, alpha=lr)
                layer.bias.sub_(layer.bias.grad, alpha=lr)
                layer.weight.grad = layer.bias.grad = None
