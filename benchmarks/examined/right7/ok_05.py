"""Activation offload through saved-tensor hooks."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, min_bytes=1 << 16, max_inflight=4):
        self.min_bytes = min_bytes
        self.max_inflight = max_inflight
        self.stream = torch.cuda.Stream()
        self.stash = {}
        self.counter = 0
        super().__init__(self._pack, self._unpack)

    def _retire(self, limit):
        while len(self.stash) > limit:
            oldest = next(iter(self.stash))
            tensor, event = self.stash.pop(oldest)
            torch.cuda.current_stream().wait_event(event)
            del tensor

    def _pack(self, tensor):
        nbytes = tensor.numel() * tensor.element_size()
        if isinstance(tensor, nn.Parameter) or not tensor.is_cuda or nbytes < self.min_bytes:
            return tensor
        self._retire(self.max_inflight)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            cpu = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            cpu.copy_(tensor, non_blocking=True)
            event = self.stream.record_event()
        self.counter += 1
        self.stash[self.counter] = (tensor, event)
        return (tensor.device, cpu)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        device, cpu = packed
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            gpu = cpu.to(device, non_blocking=True)
        current.wait_stream(self.stream)
        gpu.record_stream(current)
        return gpu

    def __exit__(self, *exc):
        self._retire(0)
        return super().__exit__(*exc)


def train(steps=4):
    model = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(512, 512), nn.GELU())]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(256, 512, device="cuda")
        with OffloadActivations():
            loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    return loss.item()


if __name__ == "__main__":
    print(train())
