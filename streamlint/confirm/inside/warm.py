"""The first uses of a library, which load kernels and create handles.

That can wait for the device, and so hide a missing order.
"""

from __future__ import annotations

import sys
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


class WarmUp:
    """Once, as soon as the program has begun to use PyTorch on the GPU: no first use behind a gate."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self) -> None:
        torch = sys.modules.get("torch")
        if not self._done and torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
            self._done = True
            warm(torch)
