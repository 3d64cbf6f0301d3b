"""Keep optimizer moments in host memory and bring them back during backward."""
from typing import Dict, List, Tuple

import torch
import torch.nn as nn


class MomentOffloader:
    """Moves Adam moments to pinned memory after step() and back before the next one."""

    KEYS = ("exp_avg", "exp_avg_sq")

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer
        self.copy_stream = torch.cuda.Stream()
        self.host: Dict[Tuple[nn.Parameter, str], torch.Tensor] = {}
        self.reloaded = torch.cuda.Event()
        self.on_device = True

    def _entries(self) -> List[Tuple[nn.Parameter, str]]:
        out = []
        for p, state in self.optimizer.state.items():
            out.extend((p, k) for k in self.KEYS if k in state)
        return out

    @torch.no_grad()
    def offload(self) -> None:
        if not self.on_device:
            return
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for p, k in self._entries():
                dev = self.optimizer.state[p][k]
                host = self.host.get((p, k))
                if host is None:
                    host = torch.empty(dev.shape, dtype=dev.dtype, pin_memory=True)
                    self.host[(p, k)] = host
                host.copy_(dev, non_blocking=True)
                dev.record_stream(self.copy_stream)
                self.optimizer.state[p][k] = host
        self.on_device = False

    @torch.no_grad()
    def reload(self) -> None:
        if self.on_device or not self.host:
            return
        buffers = {key: torch.empty(h.shape, dtype=h.dtype, device="cuda") for key, h in self.host.items()}
        with torch.cuda.stream(self.copy_stream):
            for key, buf in buffers.items():
                buf.copy_(self.host[key], non_blocking=True)
            self.reloaded.record(self.copy_stream)
        for (p, k), buf in buffers.items():
            self.optimizer.state[p][k] = buf
        self.on_device = True

    def before_step(self) -> None:
        self.reload()
        torch.cuda.current_stream().wait_event(self.reloaded)


class Trainer:
    def __init__(self, blocks: int = 12, width: int = 2048):
        self.model = nn.Sequential(
            *[nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(blocks)]
        ).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, foreach=True)
        self.offloader = MomentOffloader(self.optimizer)
        middle = self.model[blocks // 2]
        middle.register_full_backward_hook(self._on_half_backward)

    def _on_half_backward(self, module, grad_input, grad_output):
        self.offloader.reload()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.offloader.before_step()
        self.optimizer.step()
        self.offloader.offload()
        return loss.detach()


def main():
    trainer = Trainer()
    losses = []
    for _ in range(100):
        x = torch.randn(512, 2048, device="cuda")
        losses.append(trainer.step(x, x.roll(1, dims=0)))
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
