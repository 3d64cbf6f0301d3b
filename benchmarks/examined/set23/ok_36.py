"""Surfaces owned by a decoder, copied out before they are given back."""
from collections import deque

import torch


class Surface:
    def __init__(self, slot, tensor):
        self.slot = slot
        self.tensor = tensor
        self.copied = None


class Decoder:
    """Fixed set of surfaces; decoding writes into them on ``decode_stream``."""

    def __init__(self, packets, num_surfaces, shape, device):
        self.packets = iter(packets)
        self.decode_stream = torch.cuda.Stream(device)
        self.storage = [
            torch.empty(shape, dtype=torch.uint8, device=device) for _ in range(num_surfaces)
        ]
        self.decode_stream.wait_stream(torch.cuda.current_stream(device))
        self.free_slots = deque(range(num_surfaces))
        self.mapped = deque()

    def map(self):
        """Next picture as (surface, event) or None at the end of the stream."""
        packet = next(self.packets, None)
        if packet is None:
            return None
        if not self.free_slots:
            self._reclaim()
        slot = self.free_slots.popleft()
        with torch.cuda.stream(self.decode_stream):
            self.storage[slot].copy_(packet, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        surface = Surface(slot, self.storage[slot])
        self.mapped.append(surface)
        return surface, event

    def _reclaim(self):
        surface = self.mapped.popleft()
        surface.copied.synchronize()
        self.free_slots.append(surface.slot)


class FrameReader:
    def __init__(self, packets, shape, device="cuda:0", num_surfaces=4):
        self.device = torch.device(device)
        self.decoder = Decoder(packets, num_surfaces, shape, self.device)
        self.post_stream = torch.cuda.Stream(self.device)

    def __iter__(self):
        while True:
            item = self.decoder.map()
            if item is None:
                return
            surface, decoded = item
            self.post_stream.wait_event(decoded)
            with torch.cuda.stream(self.post_stream):
                frame = surface.tensor.to(torch.float16).div_(255)
                surface.copied = torch.cuda.Event()
                surface.copied.record()
            current = torch.cuda.current_stream(self.device)
            current.wait_event(surface.copied)
            frame.record_stream(current)
            yield frame


def embed(model, packets, shape):
    packets = [p.pin_memory() for p in packets]
    features = []
    with torch.inference_mode():
        for frame in FrameReader(packets, shape):
            features.append(model(frame.unsqueeze(0)).squeeze(0))
    return torch.stack(features).cpu()
