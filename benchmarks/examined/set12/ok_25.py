from typing import Iterable, List, Optional, Tuple

import torch
import torch.distributed as dist


class PackedBroadcastProducer:
    """Packs named tensors into large buffers and broadcasts these, two at a time."""

    def __init__(self, group, src, buffer_bytes=1 << 30, num_slots=2, device="cuda"):
        self.group = group
        self.src = src
        self.device = torch.device(device)
        self.buffer_bytes = buffer_bytes
        self.streams = [torch.cuda.Stream(self.device) for _ in range(num_slots)]
        self.buffers: List[Optional[torch.Tensor]] = [None] * num_slots

    def _chunks(self, weights: Iterable[Tuple[str, torch.Tensor]]):
        chunk, size = [], 0
        for name, tensor in weights:
            nbytes = tensor.numel() * tensor.element_size()
            if chunk and size + nbytes > self.buffer_bytes:
                yield chunk
                chunk, size = [], 0
            chunk.append((name, tensor))
            size += nbytes
        if chunk:
            yield chunk

    def _pack(self, slot, chunk):
        flat = [t.contiguous().view(-1).view(torch.uint8) for _, t in chunk]
        total = sum(f.numel() for f in flat)
        if self.buffers[slot] is None or self.buffers[slot].numel() < total:
            self.buffers[slot] = torch.empty(
                max(total, self.buffer_bytes), dtype=torch.uint8, device=self.device
            )
        packed = self.buffers[slot][:total]
        torch.cat(flat, out=packed)
        return packed

    def send(self, weights):
        metadata = []
        producer = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            stream.wait_stream(producer)
        for index, chunk in enumerate(self._chunks(weights)):
            slot = index % len(self.streams)
            stream = self.streams[slot]
            stream.synchronize()
            with torch.cuda.stream(stream):
                packed = self._pack(slot, chunk)
                dist.broadcast(packed, self.src, group=self.group)
            metadata.extend((name, t.shape, t.dtype) for name, t in chunk)
        for stream in self.streams:
            stream.synchronize()
        return metadata


def update_weights(model, producer):
    params = [(n, p.detach()) for n, p in model.named_parameters()]
    return producer.send(params)
