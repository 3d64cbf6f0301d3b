from contextlib import nullcontext

import torch
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, use_pin_memory: bool = True, min_offload_size: int = 1024):
        self.use_pin_memory = use_pin_memory
        self.min_tensor_size_bytes = min_offload_size
        self.tracker = {}
        self.tensor_id = 0
        self.is_first_forward_call = True
        self.is_first_backward_call = True
        self.s1 = torch.cuda.Stream()
        self.fwd_stash = {}

        super().__init__(self._pack_tensor, self._unpack_tensor)

    @property
    def s0(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream()

    def _wait_and_del(self, tensor_id: int) -> None:
        activation, event = self.fwd_stash.pop(tensor_id)
        self.s0.wait_event(event)
        del activation

    def _pack_tensor(self, activation: torch.Tensor) -> int:
        if self.is_first_forward_call:
            self.tracker.clear()
            self.is_first_forward_call = False
        self.is_first_backward_call = True
        self.tensor_id += 1
        tensor_id = self.tensor_id

        num_bytes = activation.element_size() * activation.nelement()
        is_param = isinstance(activation, torch.nn.Parameter)
        if not activation.is_cuda or is_param or num_bytes < self.min_tensor_size_bytes:
            self.tracker[tensor_id] = (activation, False)
            return tensor_id

        for stashed in [k for k in self.fwd_stash if k <= tensor_id - 2]:
            self._wait_and_del(stashed)

        self.s1.wait_stream(self.s0)

        if activation.storage_offset() != 0 or not activation.is_contiguous():
            activation = activation.clone(memory_format=torch.contiguous_format)

        with torch.cuda.stream(self.s1):
            cpu_tensor = torch.empty_like(activation, device="cpu", pin_memory=self.use_pin_memory)
            cpu_tensor.copy_(activation, non_blocking=True)
            self.tracker[tensor_id] = (cpu_tensor, True)
        self.fwd_stash[tensor_id] = (activation, self.s1.record_event())
        return tensor_id

    def _unpack_tensor(self, tensor_id: int) -> torch.Tensor:
        if self.is_first_backward_call:
            self.is_first_backward_call = False
            self.is_first_forward_call = True
            for stashed in list(self.fwd_stash):
                self._wait_and_del(stashed)

        tensor, modified = self.tracker.pop(tensor_id)
        if not modified:
            return tensor
        with torch.cuda.stream(self.s1):
            gpu_tensor = tensor.to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        gpu_tensor.record_stream(self.s0)
        return gpu_tensor


def get_act_offloading_ctx_manager(enabled: bool):
    return OffloadActivations() if enabled else nullcontext()


def train_step(model, batch, optimizer, enabled=True):
    with get_act_offloading_ctx_manager(enabled):
        loss = model(batch["input_ids"], labels=batch["shift_labels"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()
