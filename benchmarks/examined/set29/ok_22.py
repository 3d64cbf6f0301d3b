"""Optimizer whose states live in page-locked mirrors and are swapped in around each update."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class SwapSlot:
    """A device tensor whose storage is released while the state is on the host."""

    device: torch.Tensor
    host: torch.Tensor = field(init=False)
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = self.device.untyped_storage().nbytes()
        self.host = torch.empty(self.device.shape, dtype=self.device.dtype, pin_memory=True)


@dataclass
class UpdateUnit:
    param: nn.Parameter
    slots: list[SwapSlot]
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    stored: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class PipelineSwapRuntime:
    def __init__(self) -> None:
        self.load_stream = torch.cuda.Stream()
        self.store_stream = torch.cuda.Stream()

    def offload_initial(self, units: list[UpdateUnit]) -> None:
        for unit in units:
            for slot in unit.slots:
                slot.host.copy_(slot.device)
                slot.device.untyped_storage().resize_(0)

    def swap_in(self, unit: UpdateUnit) -> None:
        for slot in unit.slots:
            slot.device.untyped_storage().resize_(slot.nbytes)
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            self.load_stream.wait_event(unit.stored)
            for slot in unit.slots:
                slot.device.copy_(slot.host, non_blocking=True)
            unit.loaded.record(self.load_stream)

    def wait_loaded(self, unit: UpdateUnit) -> None:
        torch.cuda.current_stream().wait_event(unit.loaded)

    def swap_out(self, unit: UpdateUnit) -> None:
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            for slot in unit.slots:
                slot.host.copy_(slot.device, non_blocking=True)
            unit.stored.record(self.store_stream)

    def release(self, unit: UpdateUnit) -> None:
        torch.cuda.current_stream().wait_event(unit.stored)
        for slot in unit.slots:
            slot.device.untyped_storage().resize_(0)


class SwapAdam:
    def __init__(self, params, lr: float, betas=(0.9, 0.999)) -> None:
        self.lr, self.betas, self.steps = lr, betas, 0
        self.runtime = PipelineSwapRuntime()
        self.units = [
            UpdateUnit(p, [SwapSlot(torch.zeros_like(p.data)), SwapSlot(torch.zeros_like(p.data))])
            for p in params
        ]
        self.runtime.offload_initial(self.units)

    def _update(self, unit: UpdateUnit) -> None:
        m, v = (slot.device for slot in unit.slots)
        b1, b2 = self.betas
        grad = unit.param.grad
        m.mul_(b1).add_(grad, alpha=1 - b1)
        v.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        m_hat = m / (1 - b1 ** self.steps)
        v_hat = v / (1 - b2 ** self.steps)
        unit.param.data.addcdiv_(m_hat, v_hat.sqrt_().add_(1e-8), value=-self.lr)

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        runtime, units = self.runtime, self.units
        runtime.swap_in(units[0])
        previous: UpdateUnit | None = None
        for i, unit in enumerate(units):
            if i + 1 < len(units):
                runtime.swap_in(units[i + 1])
            runtime.wait_loaded(unit)
            self._update(unit)
            runtime.swap_out(unit)
            if previous is not None:
                runtime.release(previous)
            previous = unit
        runtime.release(previous)

    def host_states(self) -> list[torch.Tensor]:
        self.runtime.store_stream.synchronize()
        return [slot.host for unit in self.units for slot in unit.slots]


def main() -> None:
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = SwapAdam(list(model.parameters()), lr=1e-4)
    for _ in range(10):
        loss = model(torch.randn(64, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
    print(loss.item(), sum(h.sum().item() for h in optimizer.host_states()))


if __name__ == "__main__":
    main()
