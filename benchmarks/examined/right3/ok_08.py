"""Packed weight broadcast with one stream per packing buffer."""
from typing import Callable, Iterable

import torch
import torch.distributed as dist


def as_bytes(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view(-1).view(torch.uint8)


def packed_broadcast_producer(
    weights: Iterable[tuple[str, torch.Tensor]],
    group,
    src: int,
    post: Callable[[torch.Tensor], torch.Tensor] = as_bytes,
    buffer_bytes: int = 256 << 20,
    num_buffers: int = 2,
) -> int:
    caller = torch.cuda.current_stream()
    streams = [torch.cuda.Stream() for _ in range(num_buffers)]
    sources: list[list[torch.Tensor]] = [[] for _ in range(num_buffers)]
    packed: list[torch.Tensor | None] = [None] * num_buffers
    it = iter(weights)
    sent, slot, exhausted = 0, 0, False

    while not exhausted:
        streams[slot].synchronize()
        sources[slot].clear()
        size = 0
        while size < buffer_bytes:
            try:
                _, tensor = next(it)
            except StopIteration:
                exhausted = True
                break
            flat = post(tensor)
            sources[slot].append(flat)
            size += flat.numel()
        if not sources[slot]:
            break
        streams[slot].wait_stream(caller)
        with torch.cuda.stream(streams[slot]):
            packed[slot] = torch.cat(sources[slot])
            dist.broadcast(packed[slot], src=src, group=group)
        sent += size
        slot = (slot + 1) % num_buffers

    for stream in streams:
        stream.synchronize()
    return sent


def quantized(model: torch.nn.Module):
    for name, p in model.named_parameters():
        scale = p.detach().abs().amax() / 127
        yield name, torch.round(p.detach() / scale).to(torch.int8)
        yield name + ".scale", scale.reshape(1)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(10)]).cuda()
    total = packed_broadcast_producer(quantized(model), dist.group.WORLD, 0, buffer_bytes=2 << 20)
    print("sent", total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
