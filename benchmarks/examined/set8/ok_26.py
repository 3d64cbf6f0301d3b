import collections

import torch


class ActivationOffloader(torch.autograd.graph.saved_tensors_hooks):
    """Moves saved activations to pinned host memory, a few in flight at a time."""

    def __init__(self, min_numel=4096, max_inflight=2):
        self.min_numel = min_numel
        self.max_inflight = max_inflight
        self.offload_stream = torch.cuda.Stream()
        self.stash = collections.deque()
        super().__init__(self._pack, self._unpack)

    def _trim(self, limit):
        compute = torch.cuda.current_stream()
        while len(self.stash) > limit:
            tensor, event = self.stash.popleft()
            compute.wait_event(event)
            del tensor

    def _pack(self, tensor):
        if not tensor.is_cuda or tensor.numel() < self.min_numel or isinstance(
                tensor, torch.nn.Parameter):
            return tensor
        tensor = tensor.detach()
        self._trim(self.max_inflight - 1)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.offload_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.offload_stream):
            host.copy_(tensor, non_blocking=True)
            event = self.offload_stream.record_event()
        self.stash.append((tensor, event))
        return (host, event, tensor.device)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        host, event, device = packed
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.offload_stream):
            self.offload_stream.wait_event(event)
            tensor = host.to(device, non_blocking=True)
        compute.wait_stream(self.offload_stream)
        tensor.record_stream(compute)
        return tensor

    def __exit__(self, *exc):
        self._trim(0)
        return super().__exit__(*exc)


def train_step(blocks, head, x, y, opt):
    with ActivationOffloader():
        h = x
        for block in blocks:
            h = block(h)
        loss = torch.nn.functional.cross_entropy(head(h), y)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()
