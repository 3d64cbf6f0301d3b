"""Grouped expert products run on a handle stream; their scratch is retained until the launch has finished."""
from collections import deque
from typing import Deque, List, Tuple

import torch
from torch import nn


class WorkspaceRetainer:
    def __init__(self, capacity: int = 16):
        self.capacity = capacity
        self._pending: Deque[Tuple[torch.cuda.Event, torch.Tensor]] = deque()

    def retain(self, workspace: torch.Tensor, stream: torch.cuda.Stream) -> None:
        self._pending.append((stream.record_event(), workspace))
        while self._pending and self._pending[0][0].query():
            self._pending.popleft()
        while len(self._pending) > self.capacity:
            self._pending.popleft()

    def drain(self) -> None:
        for event, _ in self._pending:
            event.synchronize()
        self._pending.clear()


class GroupedLinear:
    def __init__(self, weights: torch.Tensor, stream: torch.cuda.Stream, retainer: WorkspaceRetainer):
        self.weights = weights
        self.stream = stream
        self.retainer = retainer

    def execute(self, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """tokens: [experts, rows, hidden]; the sum over experts is added to out on the handle stream."""
        experts, rows, _ = tokens.shape
        workspace = torch.empty(
            (experts, rows, self.weights.shape[2]), dtype=tokens.dtype, device=tokens.device
        )
        with torch.cuda.stream(self.stream):
            torch.bmm(tokens, self.weights, out=workspace)
            out.add_(workspace.sum(dim=0))
        self.retainer.retain(workspace, self.stream)


class SharedExpertTrunk(nn.Module):
    """A dense trunk on the caller's stream; every layer also feeds the expert accumulator."""

    def __init__(self, layers: int, hidden: int, experts: int, device: torch.device):
        super().__init__()
        self.stream = torch.cuda.Stream(device)
        self.retainer = WorkspaceRetainer()
        self.dense = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(layers)).to(device)
        self.grouped: List[GroupedLinear] = [
            GroupedLinear(
                torch.randn(experts, hidden, hidden, device=device) * hidden**-0.5, self.stream, self.retainer
            )
            for _ in range(layers)
        ]
        self.experts = experts

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        accumulator = torch.zeros_like(x)
        routed: List[torch.Tensor] = []
        for dense, grouped in zip(self.dense, self.grouped):
            x = torch.tanh(dense(x))
            tokens = x.expand(self.experts, *x.shape).contiguous()
            routed.append(tokens)
            self.stream.wait_stream(current)
            grouped.execute(tokens, accumulator)
        current.wait_stream(self.stream)
        routed.clear()
        return x + accumulator


def main() -> None:
    device = torch.device("cuda")
    trunk = SharedExpertTrunk(48, 1024, 8, device)
    x = torch.randn(1024, 1024, device=device)
    for _ in range(10):
        y = trunk(x)
    trunk.retainer.drain()
    print(y.mean().item())


if __name__ == "__main__":
    main()
