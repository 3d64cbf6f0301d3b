"""Streams decoded video chunks to the host while decoding goes on."""
import queue
from concurrent.futures import ThreadPoolExecutor

import torch


class HostSlot:
    def __init__(self, shape):
        self.data = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.landed = torch.cuda.Event()


class ChunkExporter:
    """Quantizes chunks on the decode stream and moves them out on a copy stream."""

    def __init__(self, shape, depth=3, device="cuda", encode=None):
        self.device = torch.device(device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.slots = queue.Queue()
        for _ in range(depth):
            self.slots.put(HostSlot(shape))
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.encode = encode or (lambda frames: frames.tobytes())
        self.pending = []

    @staticmethod
    def _quantize(frames):
        return frames.clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8)

    def submit(self, frames):
        slot = self.slots.get()
        packed = self._quantize(frames)
        produced = torch.cuda.current_stream(self.device).record_event()
        with torch.cuda.stream(self.copy_stream):
            self.copy_stream.wait_event(produced)
            slot.data[:packed.shape[0]].copy_(packed, non_blocking=True)
            slot.landed.record(self.copy_stream)
        self.pending.append(self.pool.submit(self._drain, slot, packed.shape[0]))

    def _drain(self, slot, count):
        slot.landed.synchronize()
        try:
            return self.encode(slot.data[:count].numpy())
        finally:
            self.slots.put(slot)

    def finish(self):
        payload = [f.result() for f in self.pending]
        self.pending.clear()
        return payload

    def close(self):
        self.pool.shutdown(wait=True)


@torch.inference_mode()
def decode_video(vae, latents, chunk=4, size=(720, 1280), device="cuda"):
    exporter = ChunkExporter((chunk, 3, *size), device=device)
    try:
        for part in latents.split(chunk):
            exporter.submit(vae(part.to(device)))
        return b"".join(exporter.finish())
    finally:
        exporter.close()
