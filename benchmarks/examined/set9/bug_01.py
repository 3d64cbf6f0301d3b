from collections import defaultdict
from typing import Dict

import torch


def _param_generator(cpu_optimizer):
    for group in cpu_optimizer.param_groups:
        for param in group["params"]:
            yield param


class HybridDeviceOptimizer(torch.optim.Optimizer):
    """Updates part of the parameters on the CPU, with overlapped D2H / H2D."""

    def __init__(self, params, cpu_optimizer_cls, offload_fraction=0.5, pin_cpu_grads=True, **kwargs):
        super().__init__(params, defaults={"offload_fraction": offload_fraction, **kwargs})
        self.cpu_optimizer_cls = cpu_optimizer_cls
        self.offload_fraction = offload_fraction
        self.pin_cpu_grads = pin_cpu_grads
        self.sub_optimizer_kwargs = kwargs
        self._init_sub_optimizers()

    def _init_sub_optimizers(self):
        self.cpu_copys_map_gpu_param = {}
        self.cpu_optimizers = []
        self.cpu_copy_map_grad: Dict[torch.Tensor, torch.Tensor] = defaultdict(torch.Tensor)
        for group in self.param_groups:
            for param in group["params"]:
                cpu_copy = param.detach().clone().cpu().pin_memory()
                self.cpu_copys_map_gpu_param[cpu_copy] = param
                self.cpu_optimizers.append(
                    self.cpu_optimizer_cls([{"params": [cpu_copy]}], **self.sub_optimizer_kwargs)
                )
        self._d2h_stream = torch.cuda.Stream()
        self._h2d_stream = torch.cuda.Stream()
        self._cpu_optimizer_map_data_event = dict()
        self._register_param_copy_back_gpu_hook()

    def _set_sub_optimizer_grads(self):
        for optimizer in self.cpu_optimizers:
            for param in _param_generator(optimizer):
                gpu_param = self.cpu_copys_map_gpu_param[param]
                grad = getattr(gpu_param, "decoupled_grad", gpu_param.grad)
                if grad is None:
                    param.grad = None
                    continue
                if param not in self.cpu_copy_map_grad:
                    self.cpu_copy_map_grad[param] = torch.empty(
                        param.shape, dtype=param.dtype, pin_memory=self.pin_cpu_grads, device="cpu"
                    )
                param.grad = self.cpu_copy_map_grad[param]
                self.cpu_copy_map_grad[param].data.copy_(grad, non_blocking=True)
            self._cpu_optimizer_map_data_event[optimizer] = self._d2h_stream.record_event()

    def _register_param_copy_back_gpu_hook(self):
        def param_copy_back_gpu_hook_closure():
            def param_copy_back_gpu_hook(optimizer, args, kwargs):
                self._h2d_stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self._h2d_stream):
                    for param in _param_generator(optimizer):
                        gpu_param = self.cpu_copys_map_gpu_param[param]
                        gpu_param.data.copy_(param.data, non_blocking=True)
                self._d2h_stream.record_event().wait(torch.cuda.current_stream())

            return param_copy_back_gpu_hook

        for optimizer in self.cpu_optimizers:
            optimizer.register_step_post_hook(param_copy_back_gpu_hook_closure())

    def step(self, closure=None):
        self._d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._d2h_stream):
            self._set_sub_optimizer_grads()

        for cpu_optimizer in self.cpu_optimizers:
            d2h_event = self._cpu_optimizer_map_data_event.pop(cpu_optimizer, None)
            if d2h_event is not None:
                d2h_event.synchronize()
            cpu_optimizer.step(closure)


def train_step(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=False)
    loss = model(batch).float().mean()
    loss.backward()
    optimizer.step()
    return loss
