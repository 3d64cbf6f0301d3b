"""Gradient statistics gathered by tensor hooks while backward continues."""
from __future__ import annotations

import math

import torch


class GradientProbe:
    """Per-module absolute maximum and squared norm of the output gradient."""

    def __init__(self, model: torch.nn.Module, device: torch.device):
        self.device = device
        self._stream = torch.cuda.Stream(device=device)
        self._stats: dict[str, torch.Tensor] = {}
        self._handles = [
            module.register_forward_hook(self._attach(name))
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear)
        ]

    def _attach(self, name: str):
        def forward_hook(module, args, output):
            if output.requires_grad:
                output.register_hook(lambda grad: self._observe(name, grad))

        return forward_hook

    def _observe(self, name: str, grad: torch.Tensor) -> None:
        frozen = grad.detach().clone()
        frozen.record_stream(self._stream)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            wide = frozen.float()
            row = torch.stack([wide.abs().max(), wide.square().sum()])
            known = self._stats.get(name)
            if known is None:
                self._stats[name] = row
            else:
                known[0] = torch.maximum(known[0], row[0])
                known[1] += row[1]

    def collect(self) -> dict[str, tuple[float, float]]:
        stats, self._stats = self._stats, {}
        with torch.cuda.stream(self._stream):
            return {
                name: (value[0].item(), math.sqrt(value[1].item())) for name, value in stats.items()
            }

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = torch.nn.Sequential(
        torch.nn.Linear(128, 512),
        torch.nn.ReLU(inplace=True),
        torch.nn.Linear(512, 512),
        torch.nn.ReLU(inplace=True),
        torch.nn.Linear(512, 1),
    ).to(device)
    probe = GradientProbe(model, device)
    optim = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(12):
        for _ in range(2):
            x = torch.randn(256, 128, device=device)
            (model(x).squeeze(1) - x[:, 0]).square().mean().backward()
        optim.step()
        optim.zero_grad(set_to_none=True)
        if step % 4 == 3:
            for name, (peak, norm) in probe.collect().items():
                print(step, name, f"{peak:.3e}", f"{norm:.3e}")
    probe.close()


if __name__ == "__main__":
    main()
