from typing import Dict, List

import torch
import torch.nn as nn


class _HostParam:
    def __init__(self, param: nn.Parameter):
        self.device_param = param
        self.host = param.detach().cpu().pin_memory()
        self.host.grad = torch.zeros_like(self.host).pin_memory()
        self.grad_ready = torch.cuda.Event()
        self.uploaded = torch.cuda.Event()
        self.has_grad = False


class HostOptimizer:
    """Keeps optimizer state and master weights on the CPU."""

    def __init__(self, model: nn.Module, cls=torch.optim.AdamW, **kwargs):
        params = [p for p in model.parameters() if p.requires_grad]
        self.device = params[0].device
        self.copy_stream = torch.cuda.Stream(self.device)
        self.entries: List[_HostParam] = []
        self.optims: Dict[int, torch.optim.Optimizer] = {}
        for p in params:
            entry = _HostParam(p)
            self.entries.append(entry)
            self.optims[id(entry)] = cls([entry.host], **kwargs)
            p.register_post_accumulate_grad_hook(self._make_hook(entry))

    def _make_hook(self, entry: _HostParam):
        def hook(param: torch.Tensor) -> None:
            self.copy_stream.wait_stream(torch.cuda.current_stream(param.device))
            with torch.cuda.stream(self.copy_stream):
                entry.host.grad.copy_(param.grad, non_blocking=True)
                entry.grad_ready.record(self.copy_stream)
            param.grad.record_stream(self.copy_stream)
            param.grad = None
            entry.has_grad = True

        return hook

    @torch.no_grad()
    def step(self) -> None:
        current = torch.cuda.current_stream(self.device)
        for entry in self.entries:
            if not entry.has_grad:
                continue
            entry.grad_ready.synchronize()
            entry.uploaded.synchronize()
            self.optims[id(entry)].step()
            entry.device_param.copy_(entry.host, non_blocking=True)
            entry.uploaded.record(current)
            entry.has_grad = False

    def state_dict(self):
        return [self.optims[id(e)].state_dict() for e in self.entries]


def train(model: nn.Module, batches, criterion) -> List[float]:
    optimizer = HostOptimizer(model, lr=1e-4)
    losses = []
    for x, y in batches:
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()
