from collections import defaultdict
from typing import Dict, List, Optional

import torch
import torch.distributed as dist
from torch.amp.grad_scaler import GradScaler, OptState, _MultiDeviceReplicator


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _GeneralMultiDeviceReplicator(_MultiDeviceReplicator):
    def __init__(self, master_tensor: torch.Tensor) -> None:
        self.master = master_tensor
        self._per_device_tensors: Dict[torch.device, torch.Tensor] = {}

    def get(self, device: torch.device) -> torch.Tensor:
        if device not in self._per_device_tensors:
            self._per_device_tensors[device] = self.master.to(device=device, copy=True)
        return self._per_device_tensors[device]


class ShardedGradScaler(GradScaler):
    """Gradient scaler whose found_inf is shared over the shards of an optimizer."""

    def __init__(self, device="cuda", init_scale=2.0**16, process_group: Optional[dist.ProcessGroup] = None):
        super().__init__(device, init_scale=init_scale)
        self.process_group = process_group or dist.group.WORLD
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _foreach_non_finite_check_and_unscale_cpu_(self, grads: List[torch.Tensor], found_inf, inv_scale):
        for grad in grads:
            if not torch.isfinite(grad).all():
                found_inf.fill_(1.0)
            grad.mul_(inv_scale.item())

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16=True):
        per_device_inv_scale = _GeneralMultiDeviceReplicator(inv_scale)
        per_device_found_inf = _GeneralMultiDeviceReplicator(found_inf)
        per_device_grads = defaultdict(list)
        with torch.no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        per_device_grads[param.grad.device].append(param.grad)
            for device, grads in per_device_grads.items():
                args = (grads, per_device_found_inf.get(device), per_device_inv_scale.get(device))
                if device.type == "cpu":
                    self._foreach_non_finite_check_and_unscale_cpu_(*args)
                else:
                    torch._amp_foreach_non_finite_check_and_unscale_(*args)
        return per_device_found_inf._per_device_tensors

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        optimizer_state = self._per_optimizer_states[id(optimizer)]
        if optimizer_state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        inv_scale = self._scale.double().reciprocal().float()
        found_inf = torch.full((1,), 0.0, dtype=torch.float32, device=self._scale.device)
        optimizer_state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, True)
        optimizer_state["stage"] = OptState.UNSCALED

        # Synchronize the detected inf across the ranks
        works = []
        for v in optimizer_state["found_inf_per_device"].values():
            if v.device.type == "cpu":
                v_on_cuda = v.cuda()
                works.append(dist.all_reduce(v_on_cuda, async_op=True, group=self.process_group))
                v.copy_(v_on_cuda)
            else:
                works.append(dist.all_reduce(v, async_op=True, group=self.process_group))
        for work in works:
            work.wait()
