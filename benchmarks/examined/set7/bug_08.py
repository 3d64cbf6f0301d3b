from typing import Type

import torch
from torch.optim.optimizer import Optimizer, ParamsT


class CPUOffloadOptimizer:
    """Keeps optimizer states and master parameters in host memory."""

    def __init__(self, params: ParamsT, optimizer_class: Type[Optimizer] = torch.optim.AdamW, *,
                 offload_gradients: bool = False, minimal_size: int = 4096, **kwargs) -> None:
        param_groups = list(params)
        if len(param_groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(param_groups[0], dict):
            param_groups = [{"params": param_groups}]

        self.param_d2h_map = dict()
        self.optim_dict = dict()
        self.stream = torch.cuda.Stream()
        self.queue = dict()

        def backward_hook(p_device):
            if p_device.grad is None:
                return
            p_host = self.param_d2h_map[p_device]
            if p_host.grad is None:
                p_host.grad = torch.empty_like(p_host, pin_memory=True)

            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                p_host.grad.copy_(p_device.grad, non_blocking=True)

            if p_device in self.queue:
                del self.queue[p_device]
            self.queue[p_device] = self.stream.record_event()

            if offload_gradients:
                p_device.grad.record_stream(self.stream)
                p_device.grad = None

        self.d_param_groups = []
        self.d_opt = None
        for param_group in param_groups:
            params = param_group.pop("params")
            retained = []
            for p_device in params:
                if not p_device.is_cuda or not p_device.requires_grad:
                    continue
                if p_device.numel() < minimal_size:
                    retained.append(p_device)
                    continue
                p_host = torch.empty_like(p_device, device="cpu", pin_memory=True)
                p_host.copy_(p_device)
                self.param_d2h_map[p_device] = p_host
                p_device.register_post_accumulate_grad_hook(backward_hook)
                self.optim_dict[p_device] = optimizer_class(
                    [{"params": p_host, **param_group}], **kwargs
                )
            if retained:
                self.d_param_groups.append({"params": retained, **param_group})
        if self.d_param_groups:
            self.d_opt = optimizer_class(self.d_param_groups, **kwargs)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        if self.d_opt is not None:
            self.d_opt.step()

        for p_device, grad_d2h_event in self.queue.items():
            grad_d2h_event.synchronize()
            self.optim_dict[p_device].step()

            p_host = self.param_d2h_map[p_device]
            with torch.cuda.stream(self.stream):
                p_device.copy_(p_host, non_blocking=True)

        self.queue.clear()
        return loss

    def zero_grad(self, set_to_none=True):
        for p_device in self.param_d2h_map.keys():
            p_device.grad = None
        if self.d_opt is not None:
            self.d_opt.zero_grad(set_to_none=set_to_none)


def train(model: torch.nn.Module, loader, steps: int, lr: float) -> float:
    optim = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, fused=True, lr=lr)
    last = 0.0
    for step, (x, y) in zip(range(steps), loader):
        out = model(x.cuda(non_blocking=True))
        loss = torch.nn.functional.cross_entropy(out, y.cuda(non_blocking=True))
        loss.backward()
        if step % 50 == 0:
            last = loss.item()
        optim.step()
        optim.zero_grad()
    return last
