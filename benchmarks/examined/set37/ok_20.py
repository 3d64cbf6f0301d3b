"""Training with saved activations moved to page-locked memory between forward and backward."""
from typing import NamedTuple, Set, Union

import torch
from torch import nn


class Moved(NamedTuple):
    host: torch.Tensor
    device: torch.device
    copied: torch.cuda.Event


class ActivationMover(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, model: nn.Module, device: torch.device, min_bytes: int = 1 << 20):
        self.min_bytes = min_bytes
        self.d2h, self.h2d = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._weights: Set[int] = {p.untyped_storage().data_ptr() for p in model.parameters()}
        super().__init__(self._pack, self._unpack)

    def _keep(self, tensor: torch.Tensor) -> bool:
        nbytes = tensor.numel() * tensor.element_size()
        return (
            not tensor.is_cuda
            or nbytes < self.min_bytes
            or tensor.untyped_storage().data_ptr() in self._weights
        )

    def _pack(self, tensor: torch.Tensor) -> Union[torch.Tensor, Moved]:
        if self._keep(tensor):
            return tensor
        self.d2h.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self.d2h):
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor.detach(), non_blocking=True)
            copied = self.d2h.record_event()
        tensor.record_stream(self.d2h)
        return Moved(host, tensor.device, copied)

    def _unpack(self, packed: Union[torch.Tensor, Moved]) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        current = torch.cuda.current_stream(packed.device)
        self.h2d.wait_event(packed.copied)
        with torch.cuda.stream(self.h2d):
            tensor = packed.host.to(packed.device, non_blocking=True)
        current.wait_stream(self.h2d)
        tensor.record_stream(current)
        return tensor


class ResidualBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def main() -> None:
    device = torch.device("cuda")
    model = nn.Sequential(*[ResidualBlock(1024) for _ in range(12)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    mover = ActivationMover(model, device)
    for _ in range(10):
        x = torch.randn(4096, 1024, device=device)
        with mover:
            loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
