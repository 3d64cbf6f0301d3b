from typing import Dict, Optional, Tuple, Union

import torch
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Moves saved activations to pinned host memory in forward and back in backward."""

    def __init__(self, use_pin_memory: bool = True, use_streams: bool = True,
                 max_fwd_stash_size: int = 5, min_offload_size: int = 1024) -> None:
        self.use_streams = use_streams
        self.use_pin_memory = use_pin_memory
        self.min_tensor_size_bytes = min_offload_size
        self.tracker: Dict[int, Tuple[torch.Tensor, bool]] = {}
        self.tensor_id = 0
        self.is_first_forward_call = True
        self.is_first_backward_call = True
        self.s0 = torch.cuda.current_stream()
        if self.use_streams:
            self.s1 = torch.cuda.Stream()
            self.fwd_stash: Dict[int, Tuple[torch.Tensor, torch.cuda.Event]] = {}
            self.max_fwd_stash_size = max_fwd_stash_size

        super().__init__(self.pack_tensor, self.unpack_tensor)

    def get_tensor_id(self) -> int:
        self.tensor_id += 1
        return self.tensor_id

    @staticmethod
    def get_num_bytes(x: torch.Tensor) -> int:
        return x.element_size() * x.nelement()

    def pack_tensor(self, activation: torch.Tensor) -> int:
        if self.is_first_forward_call:
            assert len(self.tracker) == 0, "backward pass should have cleared tracker"
            self.is_first_forward_call = False
            self.is_first_backward_call = True

        tensor_id = self.get_tensor_id()
        if (
            activation.is_cuda
            and self.get_num_bytes(activation) >= self.min_tensor_size_bytes
            and not isinstance(activation, torch.nn.Parameter)
        ):
            if self.use_streams:
                for id_ in [k for k in self.fwd_stash if k <= tensor_id - self.max_fwd_stash_size]:
                    _, ev = self.fwd_stash[id_]
                    self.s0.wait_event(ev)
                    del self.fwd_stash[id_]
                self.s1.wait_stream(self.s0)

            stream = self.s1 if self.use_streams else self.s0
            with torch.cuda.stream(stream):
                cpu_tensor = torch.empty_like(
                    activation, pin_memory=self.use_pin_memory, device="cpu"
                )
                cpu_tensor.copy_(activation, non_blocking=True)
                self.tracker[tensor_id] = (cpu_tensor, True)

            if self.use_streams:
                self.fwd_stash[tensor_id] = (activation, self.s1.record_event())
        else:
            self.tracker[tensor_id] = (activation, False)
        return tensor_id

    def unpack_tensor(self, unpack_tensor_id: int) -> torch.Tensor:
        if self.is_first_backward_call:
            self.is_first_backward_call = False
            self.is_first_forward_call = True
            if self.use_streams:
                for id_ in list(self.fwd_stash):
                    _, ev = self.fwd_stash.pop(id_)
                    self.s0.wait_event(ev)

        maybe_gpu_tensor, modified = self.tracker.pop(unpack_tensor_id)
        if modified:
            stream = self.s1 if self.use_streams else self.s0
            with torch.cuda.stream(stream):
                gpu_tensor = maybe_gpu_tensor.to("cuda", non_blocking=True)
            if self.use_streams:
                self.s0.wait_stream(self.s1)
            maybe_gpu_tensor = gpu_tensor
        return maybe_gpu_tensor


def train_step(model, batch, optimizer, offload: OffloadActivations) -> torch.Tensor:
    with offload:
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()
