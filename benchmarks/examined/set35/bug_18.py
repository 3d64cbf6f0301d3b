"""Optimizer state swapping between two models through one page-locked staging area."""
from dataclasses import dataclass, field
from typing import Dict, List, Optional

import torch


@dataclass
class StateSlot:
    optimizer: torch.optim.Optimizer
    keys: List = field(default_factory=list)
    resident: bool = True
    ready: Optional[torch.cuda.Event] = None


class StagingArea:
    """Coalesces all state tensors of one optimizer into a single pinned allocation."""

    def __init__(self):
        self._buffer: Optional[torch.Tensor] = None

    def view(self, numel: int) -> torch.Tensor:
        if self._buffer is None or self._buffer.numel() < numel:
            self._buffer = torch.empty(numel, pin_memory=True)
        return self._buffer[:numel]


class StateSwapper:
    def __init__(self, optimizers: Dict[str, torch.optim.Optimizer]):
        self.slots = {name: StateSlot(opt) for name, opt in optimizers.items()}
        self.staging = StagingArea()
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()

    @staticmethod
    def _tensors(optimizer: torch.optim.Optimizer):
        for param, state in optimizer.state.items():
            for key, value in state.items():
                if torch.is_tensor(value) and value.is_floating_point() and value.dim() > 0:
                    yield param, key, value

    def offload(self, name: str) -> None:
        slot = self.slots[name]
        items = list(self._tensors(slot.optimizer))
        flat = self.staging.view(sum(v.numel() for _, _, v in items))
        self.d2h.wait_stream(torch.cuda.current_stream())
        slot.keys = []
        offset = 0
        with torch.cuda.stream(self.d2h):
            for param, key, value in items:
                flat[offset:offset + value.numel()].copy_(value.reshape(-1), non_blocking=True)
                slot.keys.append((param, key, offset, value.shape))
                offset += value.numel()
                value.record_stream(self.d2h)
                slot.optimizer.state[param][key] = None
        slot.resident = False

    def restore(self, name: str) -> None:
        """Starts the transfer; the optimizer waits for it in before_step."""
        slot = self.slots[name]
        self.h2d.wait_stream(self.d2h)
        with torch.cuda.stream(self.h2d):
            flat = self.staging.view(sum(s.numel() for _, _, _, s in slot.keys))
            for param, key, offset, shape in slot.keys:
                piece = flat[offset:offset + shape.numel()]
                slot.optimizer.state[param][key] = piece.to(
                    param.device, non_blocking=True).view(shape)
            slot.ready = torch.cuda.Event()
            slot.ready.record()
        slot.resident = True

    def swap(self, incoming: str, outgoing: str) -> None:
        self.restore(incoming)
        self.offload(outgoing)

    def before_step(self, name: str) -> None:
        slot = self.slots[name]
        if slot.ready is not None:
            torch.cuda.current_stream().wait_event(slot.ready)
            slot.ready = None


def train(model, optimizer, swapper: StateSwapper, name: str, x: torch.Tensor) -> None:
    model(x).square().mean().backward()
    swapper.before_step(name)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main() -> None:
    models = {n: torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
              for n in ("policy", "value")}
    optimizers = {n: torch.optim.Adam(m.parameters()) for n, m in models.items()}
    swapper = StateSwapper(optimizers)
    x = torch.randn(64, 2048, device="cuda")
    for name in ("policy", "value"):
        train(models[name], optimizers[name], swapper, name, x)
    swapper.offload("policy")
    active, idle = "value", "policy"
    for _ in range(6):
        train(models[active], optimizers[active], swapper, active, x)
        swapper.swap(incoming=idle, outgoing=active)
        active, idle = idle, active
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
