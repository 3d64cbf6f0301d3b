import functools
from typing import Dict, Tuple

import torch


@functools.lru_cache(maxsize=None)
def side_stream(name: str, device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Workspace:
    """Lazily grown device buffers, keyed by purpose, all owned by one stream."""

    _buffers: Dict[Tuple[str, int], torch.Tensor] = {}

    @classmethod
    def get(cls, key: str, numel: int, device: int) -> torch.Tensor:
        slot = (key, device)
        buf = cls._buffers.get(slot)
        if buf is None or buf.numel() < numel:
            with torch.cuda.stream(side_stream("pack", device)):
                buf = torch.empty(max(numel, 1 << 16), device=f"cuda:{device}")
            cls._buffers[slot] = buf
        return buf[:numel]


def pack_to_host(tensors, host: torch.Tensor) -> torch.cuda.Event:
    device = tensors[0].device.index
    stream = side_stream("pack", device)
    total = sum(t.numel() for t in tensors)
    flat = Workspace.get("pack", total, device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        offset = 0
        for t in tensors:
            flat[offset:offset + t.numel()].copy_(t.reshape(-1))
            t.record_stream(stream)
            offset += t.numel()
        host[:total].copy_(flat, non_blocking=True)
        return stream.record_event()


def main():
    host = torch.empty(1 << 22, pin_memory=True)
    history = []
    for step in range(40):
        sizes = [(64 + step, 1024), (128, step + 1), (7, 5, 3)]
        tensors = [torch.full(s, float(step), device="cuda") for s in sizes]
        event = pack_to_host(tensors, host)
        total = sum(t.numel() for t in tensors)
        del tensors
        event.synchronize()
        history.append((float(host[:total].min()), float(host[:total].max())))
    assert history == [(float(s), float(s)) for s in range(40)]


if __name__ == "__main__":
    main()
