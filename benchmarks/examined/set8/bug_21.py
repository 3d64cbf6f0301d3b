import torch


class FP16GradManager:
    """Gathers fp16 gradients of a partition and looks for overflow."""

    def __init__(self, params, partition_size, device, clip_grad=1.0):
        self.params = list(params)
        self.device = device
        self.clip_grad = clip_grad
        self.local_overflow = False
        self.cpu_offload_buffer = torch.zeros(partition_size, dtype=torch.half).pin_memory()
        self.async_buff = torch.zeros(1, dtype=torch.float32).pin_memory()
        self.norm_for_param_grads = {}

    @staticmethod
    def _has_inf_or_nan(x, j=None):
        try:
            cpu_sum = float(x.float().sum())
        except RuntimeError as instance:
            if "value cannot be converted" not in instance.args[0]:
                raise
            return True
        return cpu_sum in (float("inf"), -float("inf")) or cpu_sum != cpu_sum

    @staticmethod
    def _async_has_inf_or_nan(x, async_buff, j=None):
        try:
            cpu_sum = float(async_buff.copy_(x.float().sum(), non_blocking=True))
        except RuntimeError as instance:
            if "value cannot be converted" not in instance.args[0]:
                raise
            return True
        return cpu_sum in (float("inf"), -float("inf")) or cpu_sum != cpu_sum

    def update_overflow_tracker_for_param_grad(self, param):
        if param.grad is not None and self._async_has_inf_or_nan(param.grad, self.async_buff):
            self.local_overflow = True

    def async_inplace_copy_grad_to_cpu_buffer(self, param, offset):
        dest = self.cpu_offload_buffer.narrow(0, offset, param.numel())
        dest.copy_(param.grad.view(-1), non_blocking=True)

    def gather_gradients(self):
        offset = 0
        for param in self.params:
            self.update_overflow_tracker_for_param_grad(param)
            self.async_inplace_copy_grad_to_cpu_buffer(param, offset)
            offset += param.numel()
        torch.cuda.synchronize(self.device)
        return self.cpu_offload_buffer[:offset]

    def step(self, optimizer, scaler):
        grads = self.gather_gradients()
        if self.local_overflow:
            self.local_overflow = False
            scaler.update_scale(True)
            return False
        optimizer.apply_cpu(grads.float())
        scaler.update_scale(False)
        return True
