"""The first uses of a library, which load kernels and create handles.

That can wait for the device, and so hide a missing order.
"""

from __future__ import annotations

from typing import Any


def warm(torch: Any) -> None:  # noqa: ANN401
    """Use what most programs use, before a gate is closed. Leaves the random numbers as they are."""
    with torch.no_grad():
        x = torch.ones(64, 64, device="cuda")
        host = torch.ones(64, 64).pin_memory()
        (x @ x + x * 2).sum().item()
        x.copy_(host, non_blocking=True)
        host.copy_(x.fill_(0), non_blocking=True)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            (x @ x).sum()
        torch.cuda.synchronize()
