import os
from typing import Dict, List, Optional

import safetensors.torch
import torch


class ModuleGroup:
    """A group of layers that is brought to the device together and stored on disk otherwise."""

    def __init__(self, modules: List[torch.nn.Module], group_id: str, onload_device: torch.device,
                 offload_device: torch.device, offload_to_disk_path: str,
                 stream: Optional[torch.cuda.Stream] = None, record_stream: bool = False):
        self.modules = modules
        self.onload_device = onload_device
        self.offload_device = offload_device
        self.stream = stream
        self.record_stream = record_stream
        self.safetensors_file_path = os.path.join(offload_to_disk_path, f"group_{group_id}.safetensors")
        self._is_offloaded_to_disk = False
        tensors = [t for m in modules for t in list(m.parameters()) + list(m.buffers())]
        self.tensor_to_key = {t: f"tensor_{i}" for i, t in enumerate(tensors)}
        self.key_to_tensor = {v: k for k, v in self.tensor_to_key.items()}

    def onload_(self) -> None:
        if self.stream is not None:
            self.stream.synchronize()
        default_stream = torch.cuda.current_stream() if self.stream is not None else None
        context = torch.cuda.stream(self.stream)
        with context:
            loaded = safetensors.torch.load_file(self.safetensors_file_path, device="cpu")
            for key, tensor_obj in self.key_to_tensor.items():
                pinned = loaded[key].pin_memory()
                tensor_obj.data = pinned.to(self.onload_device, non_blocking=True)
                if self.record_stream and default_stream is not None:
                    tensor_obj.data.record_stream(default_stream)

    def offload_(self) -> None:
        if not self._is_offloaded_to_disk:
            if self.stream is not None:
                torch.cuda.current_stream().synchronize()
            os.makedirs(os.path.dirname(self.safetensors_file_path), exist_ok=True)
            to_save = {
                key: tensor.data.to(self.offload_device).contiguous()
                for tensor, key in self.tensor_to_key.items()
            }
            safetensors.torch.save_file(to_save, self.safetensors_file_path)
            self._is_offloaded_to_disk = True
        elif self.stream is not None and not self.record_stream:
            torch.cuda.current_stream().synchronize()
        for tensor_obj in self.tensor_to_key.keys():
            tensor_obj.data = torch.empty_like(tensor_obj.data, device=self.offload_device)


class GroupOffloadingHook:
    def __init__(self, group: ModuleGroup, next_group: Optional["GroupOffloadingHook"] = None):
        self.group = group
        self.next_hook = next_group
        self.onloaded = False

    def pre_forward(self, module, args):
        if not self.onloaded:
            self.group.onload_()
            self.onloaded = True
        if self.group.stream is not None:
            self.group.stream.synchronize()
        if self.next_hook is not None:
            self.next_hook.group.onload_()
            self.next_hook.onloaded = True

    def post_forward(self, module, args, output):
        self.group.offload_()
        self.onloaded = False
        return output


def apply_leaf_group_offloading(model: torch.nn.Module, onload_device, path: str,
                                record_stream: bool = False) -> Dict[str, GroupOffloadingHook]:
    stream = torch.cuda.Stream(onload_device)
    hooks: Dict[str, GroupOffloadingHook] = {}
    previous = None
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.Linear, torch.nn.Conv3d, torch.nn.LayerNorm)):
            continue
        group = ModuleGroup([module], name.replace(".", "_"), torch.device(onload_device),
                            torch.device("cpu"), path, stream, record_stream)
        hook = GroupOffloadingHook(group)
        group.offload_()
        module.register_forward_pre_hook(hook.pre_forward)
        module.register_forward_hook(hook.post_forward)
        if previous is not None:
            previous.next_hook = hook
        previous = hook
        hooks[name] = hook
    return hooks
