from typing import Type

import torch
from torch.optim.optimizer import Optimizer


class CPUOffloadOptimizer:
    """Keeps the optimizer states and a master copy of the params on CPU."""

    def __init__(self, params, optimizer_class: Type[Optimizer] = torch.optim.AdamW, **kwargs) -> None:
        param_groups = list(params)
        if len(param_groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(param_groups[0], dict):
            param_groups = [{"params": param_groups}]

        self.param_cuda2cpu_map = dict()
        self.optim_dict = dict()
        self.d2h_grad_stream = torch.cuda.Stream()
        self.d2h_grad_queue = dict()

        def copy_grad_hook(p_cuda):
            if p_cuda.grad is None:
                return
            p_cpu = self.param_cuda2cpu_map[p_cuda]

            with torch.cuda.stream(self.d2h_grad_stream):
                p_cpu.grad.copy_(p_cuda.grad, non_blocking=True)

            self.d2h_grad_queue[p_cuda] = self.d2h_grad_stream.record_event()

        for group in param_groups:
            lr_kwargs = {k: v for k, v in group.items() if k != "params"}
            for p_cuda in group["params"]:
                p_cpu = torch.empty_like(p_cuda, device="cpu", pin_memory=True)
                p_cpu.grad = torch.empty_like(p_cpu, pin_memory=True)
                p_cpu.copy_(p_cuda.detach())

                self.param_cuda2cpu_map[p_cuda] = p_cpu
                p_cuda.register_post_accumulate_grad_hook(copy_grad_hook)
                self.optim_dict[p_cuda] = optimizer_class([{"params": p_cpu, **lr_kwargs}], **kwargs)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()

        for p_cuda, grad_d2h_event in self.d2h_grad_queue.items():
            grad_d2h_event.synchronize()
            self.optim_dict[p_cuda].step()
            p_cuda.copy_(self.param_cuda2cpu_map[p_cuda])

        self.d2h_grad_queue.clear()
        return loss

    def zero_grad(self, set_to_none=True):
        assert set_to_none
        for p_cuda in self.param_cuda2cpu_map.keys():
            p_cuda.grad = None


def train_one_epoch(model, loader, criterion, lr=1e-4):
    optim = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=lr, fused=True)
    for images, labels in loader:
        images = images.cuda()
        labels = labels.cuda()
        loss = criterion(model(images), labels)
        loss.backward()
        optim.step()
        optim.zero_grad()
