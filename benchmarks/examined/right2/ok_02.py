import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Keep large saved activations in pinned host memory until backward."""

    def __init__(self, min_offload_bytes: int = 1 << 16, max_fwd_stash: int = 4):
        self.min_offload_bytes = min_offload_bytes
        self.max_fwd_stash = max_fwd_stash
        self.tensor_id = 0
        self.tracker = {}
        self.fwd_stash = {}
        self.s0 = torch.cuda.default_stream()
        self.s1 = torch.cuda.Stream()
        super().__init__(self.pack_tensor, self.unpack_tensor)

    def _next_id(self) -> int:
        self.tensor_id += 1
        return self.tensor_id

    def _trim_stash(self, newest: int) -> None:
        for key in list(self.fwd_stash):
            if key > newest - self.max_fwd_stash:
                break
            _, ev = self.fwd_stash[key]
            self.s0.wait_event(ev)
            del self.fwd_stash[key]

    def pack_tensor(self, activation: torch.Tensor):
        num_bytes = activation.numel() * activation.element_size()
        if (
            not activation.is_cuda
            or num_bytes < self.min_offload_bytes
            or isinstance(activation, nn.Parameter)
            or isinstance(activation, nn.Buffer)
        ):
            return activation
        tid = self._next_id()
        self._trim_stash(tid)

        self.s1.wait_stream(self.s0)
        with torch.cuda.stream(self.s1):
            cpu_tensor = torch.empty_like(activation, pin_memory=True, device="cpu")
            cpu_tensor.copy_(activation, non_blocking=True)
            self.tracker[tid] = cpu_tensor
        self.fwd_stash[tid] = (activation, self.s1.record_event())
        return tid

    def unpack_tensor(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        cpu_tensor = self.tracker.pop(packed)
        if packed in self.fwd_stash:
            activation, ev = self.fwd_stash.pop(packed)
            self.s0.wait_event(ev)
            return activation
        with torch.cuda.stream(self.s1):
            gpu_tensor = cpu_tensor.to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        gpu_tensor.record_stream(self.s0)
        return gpu_tensor


def train(model: nn.Module, loader, optimizer, loss_fn):
    offload = OffloadActivations()
    for inputs, targets in loader:
        inputs, targets = inputs.cuda(), targets.cuda()
        with offload:
            loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
