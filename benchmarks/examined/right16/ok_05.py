"""Offload tensors saved for backward to pinned memory, with reverse-order prefetch."""
from __future__ import annotations

import weakref

import torch


class _Entry:
    __slots__ = ("host", "written", "device", "dev", "ready", "prev", "__weakref__")

    def __init__(self, host, written, device, prev):
        self.host = host
        self.written = written
        self.device = device
        self.prev = prev
        self.dev = None
        self.ready = None


class ActivationOffload:
    """Context manager; tensors with fewer than ``min_numel`` elements stay on the GPU."""

    def __init__(self, device: torch.device, min_numel: int = 1 << 14):
        self.min_numel = min_numel
        self._fetch_stream = torch.cuda.Stream(device=device)
        self._device = device
        self._last: weakref.ref | None = None
        self._hooks: torch.autograd.graph.saved_tensors_hooks | None = None

    def _pack(self, tensor: torch.Tensor):
        if tensor.device != self._device or tensor.numel() < self.min_numel or not tensor.is_contiguous():
            return tensor
        if isinstance(tensor, torch.nn.Parameter):
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        written = torch.cuda.current_stream(self._device).record_event()
        entry = _Entry(host, written, tensor.device, self._last)
        self._last = weakref.ref(entry)
        return entry

    def _fetch(self, entry: _Entry) -> None:
        if entry.dev is not None:
            return
        self._fetch_stream.wait_event(entry.written)
        with torch.cuda.stream(self._fetch_stream):
            entry.dev = entry.host.to(entry.device, non_blocking=True)
            entry.ready = self._fetch_stream.record_event()

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        self._fetch(packed)
        earlier = packed.prev() if packed.prev is not None else None
        if earlier is not None:
            self._fetch(earlier)
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(packed.ready)
        tensor, packed.dev, packed.ready = packed.dev, None, None
        tensor.record_stream(consumer)
        return tensor

    def __enter__(self) -> "ActivationOffload":
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc) -> None:
        hooks, self._hooks = self._hooks, None
        self._last = None
        hooks.__exit__(*exc)


def main() -> None:
    device = torch.device("cuda", 0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024),
        torch.nn.GELU(),
        torch.nn.Linear(1024, 1024),
        torch.nn.GELU(),
        torch.nn.Linear(1024, 16),
    ).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=1e-2)
    offload = ActivationOffload(device)
    x = torch.empty(512, 256, device=device)
    for _ in range(10):
        x.normal_()
        with offload:
            loss = model(x).square().mean()
        loss.backward()
        optim.step()
        optim.zero_grad(set_to_none=True)
    print(loss.item())


if __name__ == "__main__":
    main()
