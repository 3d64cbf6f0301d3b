"""Trial controller with overlapped gradient exchange."""
import os
from typing import Callable, Dict, Iterable, Optional

import torch
import torch.distributed as dist
import torch.nn as nn


class ExchangingOptimizer:
    """Starts the exchange of a gradient as soon as it has been accumulated."""

    def __init__(self, inner: torch.optim.Optimizer, params: Iterable[nn.Parameter]):
        self.inner = inner
        self.params = list(params)
        self.handles: Dict[nn.Parameter, dist.Work] = {}
        self._synchronized = False
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._exchange)

    def _exchange(self, p: nn.Parameter) -> None:
        p.grad.div_(dist.get_world_size())
        self.handles[p] = dist.all_reduce(p.grad, async_op=True)

    def synchronize(self) -> None:
        for work in self.handles.values():
            work.wait()
        self.handles.clear()
        self._synchronized = True

    def step(self) -> None:
        if not self._synchronized:
            self.synchronize()
        self.inner.step()
        self._synchronized = False

    def zero_grad(self) -> None:
        self.inner.zero_grad(set_to_none=True)


class TrialController:
    def __init__(
        self,
        model: nn.Module,
        optimizer: ExchangingOptimizer,
        clip: Optional[Callable[[Iterable[nn.Parameter]], None]] = None,
        use_amp: bool = False,
    ):
        self.model = model
        self.optimizer = optimizer
        self.clip = clip
        self.scaler = torch.amp.GradScaler("cuda") if use_amp else None

    def _clip(self) -> None:
        if self.clip is not None:
            self.clip(self.model.parameters())

    def train_batch(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        if self.scaler is not None:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.optimizer.synchronize()
            self.scaler.unscale_(self.optimizer.inner)
            self._clip()
            self.scaler.step(self.optimizer.inner)
            self.scaler.update()
            self.optimizer._synchronized = False
        else:
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self._clip()
            self.optimizer.step()
        return loss.detach()


def clip_by_norm(parameters: Iterable[nn.Parameter]) -> None:
    nn.utils.clip_grad_norm_(list(parameters), max_norm=1.0, foreach=True)


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 100)).cuda()
    for p in model.parameters():
        dist.broadcast(p.data, 0)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    controller = TrialController(model, ExchangingOptimizer(sgd, model.parameters()), clip_by_norm)
    total = torch.zeros((), device="cuda")
    for _ in range(200):
        x = torch.randn(256, 1024, device="cuda")
        y = torch.randint(0, 100, (256,), device="cuda")
        total += controller.train_batch(x, y)
    print(rank, (total / 200).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
