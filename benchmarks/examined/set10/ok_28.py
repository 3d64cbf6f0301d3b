import torch
from torch.autograd.graph import saved_tensors_hooks


class _Entry:
    __slots__ = ("gpu", "cpu", "event")

    def __init__(self, gpu, cpu, event):
        self.gpu, self.cpu, self.event = gpu, cpu, event


class ActivationOffload(saved_tensors_hooks):
    def __init__(self, stream, min_numel=1 << 16):
        self.stream = stream
        self.min_numel = min_numel
        self.entries = []
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor):
        if not tensor.is_cuda or tensor.numel() < self.min_numel or isinstance(tensor, torch.nn.Parameter):
            return tensor
        self.stream.wait_stream(torch.cuda.current_stream())
        cpu = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.stream(self.stream):
            cpu.copy_(tensor, non_blocking=True)
            event = self.stream.record_event()
        entry = _Entry(tensor, cpu, event)
        self.entries.append(entry)
        return entry

    def wait_for_d2h(self):
        current = torch.cuda.current_stream()
        for entry in self.entries:
            current.wait_event(entry.event)
            entry.gpu = None
        self.entries.clear()

    @staticmethod
    def _unpack(packed):
        if isinstance(packed, torch.Tensor):
            return packed
        if packed.gpu is not None:
            return packed.gpu
        return packed.cpu.to("cuda", non_blocking=True)


class OffloadedBlock(torch.nn.Module):
    """Frees the activations of a block after the next block has been issued."""

    pending = None

    def __init__(self, block, stream):
        super().__init__()
        self.block = block
        self.stream = stream

    def forward(self, x):
        ctx = ActivationOffload(self.stream)
        with ctx:
            out = self.block(x)
        if OffloadedBlock.pending is not None:
            OffloadedBlock.pending.wait_for_d2h()
        OffloadedBlock.pending = ctx
        return out


def wrap(model):
    stream = torch.cuda.Stream()
    for i, block in enumerate(model.layers):
        model.layers[i] = OffloadedBlock(block, stream)
    return model


def train_step(model, batch, target, optimizer):
    loss = torch.nn.functional.mse_loss(model(batch), target)
    if OffloadedBlock.pending is not None:
        OffloadedBlock.pending.wait_for_d2h()
        OffloadedBlock.pending = None
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()
