"""Same-rank refit of trainer weights into a colocated rollout model."""
from dataclasses import dataclass
from typing import Dict, List

import torch
import torch.nn as nn


@dataclass
class CopyOp:
    task_id: int
    tensor: torch.Tensor


class LocalCopyService:
    """Runs matched send/recv pairs of one rank as device copies."""

    def __init__(self, device: torch.device):
        self.device = device
        self._copy_stream = torch.cuda.Stream(device=device)
        self._sends: Dict[int, CopyOp] = {}
        self._recvs: Dict[int, CopyOp] = {}

    def submit_send(self, task_id: int, tensor: torch.Tensor) -> None:
        self._sends[task_id] = CopyOp(task_id, tensor)

    def submit_recv(self, task_id: int, tensor: torch.Tensor) -> None:
        self._recvs[task_id] = CopyOp(task_id, tensor)

    def _match(self) -> List[tuple]:
        if self._sends.keys() != self._recvs.keys():
            raise RuntimeError("unbalanced local transfers")
        return [(self._sends[k], self._recvs[k]) for k in sorted(self._sends)]

    def run(self) -> None:
        pairs = self._match()
        with torch.no_grad(), torch.cuda.stream(self._copy_stream):
            for send, recv in pairs:
                recv.tensor.copy_(send.tensor, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self._copy_stream)
        self._sends.clear()
        self._recvs.clear()


class RefitManager:
    def __init__(self, trainer: nn.Module, rollout: nn.Module, device: torch.device):
        self.src = [p for p in trainer.parameters()]
        self.dst = [p for p in rollout.parameters()]
        self.export = [torch.empty_like(p, dtype=torch.bfloat16) for p in self.dst]
        self.service = LocalCopyService(device)

    @torch.no_grad()
    def refit(self) -> None:
        for i, (master, staged) in enumerate(zip(self.src, self.export)):
            staged.copy_(master)
            self.service.submit_send(i, staged)
            self.service.submit_recv(i, self.dst[i].data)
        self.service.run()


def build(width: int, dtype: torch.dtype, device: torch.device) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
    ).to(device=device, dtype=dtype)


def main(steps: int = 50, width: int = 4096) -> None:
    device = torch.device("cuda", 0)
    trainer = build(width, torch.float32, device)
    rollout = build(width, torch.bfloat16, device).requires_grad_(False)
    opt = torch.optim.SGD(trainer.parameters(), lr=1e-3)
    manager = RefitManager(trainer, rollout, device)
    prompts = torch.randn(256, width, device=device)
    rewards = torch.zeros(256, device=device)
    for _ in range(steps):
        loss = (trainer(prompts).mean(dim=1) - rewards).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        manager.refit()
        with torch.no_grad():
            rewards = rollout(prompts.to(torch.bfloat16)).float().mean(dim=1)
    torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
