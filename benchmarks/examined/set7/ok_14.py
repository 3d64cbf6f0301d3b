from contextlib import contextmanager, nullcontext
from typing import Dict, List, Optional

import torch


class ModuleGroup:
    def __init__(
        self,
        modules: List[torch.nn.Module],
        offload_device: torch.device,
        onload_device: torch.device,
        non_blocking: bool = False,
        stream: Optional[torch.cuda.Stream] = None,
        record_stream: bool = False,
        low_cpu_mem_usage: bool = False,
    ) -> None:
        self.modules = modules
        self.offload_device = offload_device
        self.onload_device = onload_device
        self.non_blocking = non_blocking or stream is not None
        self.stream = stream
        self.record_stream = record_stream
        self.low_cpu_mem_usage = low_cpu_mem_usage
        self.cpu_param_dict = self._init_cpu_param_dict()

    def _init_cpu_param_dict(self) -> Dict[torch.Tensor, torch.Tensor]:
        cpu_param_dict = {}
        if self.stream is None:
            return cpu_param_dict
        for module in self.modules:
            for t in list(module.parameters()) + list(module.buffers()):
                data = t.data.cpu()
                cpu_param_dict[t] = data if self.low_cpu_mem_usage else data.pin_memory()
        return cpu_param_dict

    @contextmanager
    def _pinned_memory_tensors(self):
        try:
            yield {
                t: data.pin_memory() if not data.is_pinned() else data
                for t, data in self.cpu_param_dict.items()
            }
        finally:
            pass

    def _transfer_tensor_to_device(self, tensor, source_tensor, default_stream) -> None:
        tensor.data = source_tensor.to(self.onload_device, non_blocking=self.non_blocking)
        if self.record_stream and default_stream is not None:
            tensor.data.record_stream(default_stream)

    def _process_tensors_from_modules(self, pinned_memory=None, default_stream=None) -> None:
        for group_module in self.modules:
            for t in list(group_module.parameters()) + list(group_module.buffers()):
                source = pinned_memory[t] if pinned_memory is not None else t.data
                self._transfer_tensor_to_device(t, source, default_stream)

    def onload_(self) -> None:
        context = nullcontext() if self.stream is None else torch.cuda.stream(self.stream)
        default_stream = torch.cuda.current_stream() if self.stream is not None else None
        if self.stream is not None:
            self.stream.synchronize()
        with context:
            if self.stream is not None:
                with self._pinned_memory_tensors() as pinned_memory:
                    self._process_tensors_from_modules(pinned_memory, default_stream)
            else:
                self._process_tensors_from_modules(None)

    def offload_(self) -> None:
        if self.stream is not None:
            if not self.record_stream:
                torch.cuda.current_stream().synchronize()
            for group_module in self.modules:
                for t in list(group_module.parameters()) + list(group_module.buffers()):
                    t.data = self.cpu_param_dict[t]
        else:
            for group_module in self.modules:
                group_module.to(self.offload_device, non_blocking=False)


class BlockOffloader:
    """Runs the blocks of a transformer with one block prefetched ahead of the current one."""

    def __init__(self, blocks: torch.nn.ModuleList, device: torch.device, record_stream: bool = True):
        self.blocks = blocks
        self.stream = torch.cuda.Stream(device)
        self.groups = [
            ModuleGroup([b], torch.device("cpu"), device, stream=self.stream, record_stream=record_stream)
            for b in blocks
        ]

    @torch.no_grad()
    def __call__(self, hidden_states: torch.Tensor, *args) -> torch.Tensor:
        self.groups[0].onload_()
        for i, block in enumerate(self.blocks):
            torch.cuda.current_stream().wait_stream(self.stream)
            if i + 1 < len(self.groups):
                self.groups[i + 1].onload_()
            hidden_states = block(hidden_states, *args)
            self.groups[i].offload_()
        return hidden_states
