from typing import Dict, List, Optional

import torch
from torch import nn


class ModuleGroup:
    def __init__(
        self,
        modules: List[nn.Module],
        onload_device: torch.device,
        stream: Optional[torch.cuda.Stream] = None,
        non_blocking: bool = True,
        record_stream: bool = True,
    ):
        self.modules = modules
        self.onload_device = onload_device
        self.stream = stream
        self.non_blocking = non_blocking
        self.record_stream = record_stream
        self.cpu_param_dict: Dict[nn.Parameter, torch.Tensor] = {
            param: param.data.cpu().pin_memory()
            for module in modules
            for param in module.parameters()
        }

    def _transfer_tensor_to_device(
        self, tensor: nn.Parameter, source: torch.Tensor, default_stream: torch.cuda.Stream
    ) -> None:
        tensor.data = source.to(self.onload_device, non_blocking=self.non_blocking)
        if self.record_stream:
            tensor.data.record_stream(default_stream)

    def _process_tensors_from_modules(self, default_stream: torch.cuda.Stream) -> None:
        for param, source in self.cpu_param_dict.items():
            self._transfer_tensor_to_device(param, source, default_stream)

    def onload_(self) -> None:
        default_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            self._process_tensors_from_modules(default_stream)

    def offload_(self) -> None:
        if not self.record_stream:
            torch.cuda.current_stream().synchronize()
        for param, source in self.cpu_param_dict.items():
            param.data = source


class GroupOffloadingHook:
    def __init__(self, group: ModuleGroup, next_group: Optional[ModuleGroup]):
        self.group = group
        self.next_group = next_group

    def pre_forward(self, module, args):
        torch.cuda.current_stream().wait_stream(self.group.stream)
        if self.next_group is not None:
            self.next_group.onload_()

    def post_forward(self, module, args, output):
        self.group.offload_()
        return output


def apply_group_offloading(blocks: nn.ModuleList, onload_device: torch.device) -> ModuleGroup:
    stream = torch.cuda.Stream()
    groups = [ModuleGroup([block], onload_device, stream=stream) for block in blocks]
    for i, block in enumerate(blocks):
        following = groups[i + 1] if i + 1 < len(groups) else None
        hook = GroupOffloadingHook(groups[i], following)
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    return groups[0]


@torch.no_grad()
def denoise(blocks: nn.ModuleList, first: ModuleGroup, latents: torch.Tensor, steps: int):
    for _ in range(steps):
        first.onload_()
        hidden = latents
        for block in blocks:
            hidden = block(hidden)
        latents = latents - 0.1 * hidden
    return latents
