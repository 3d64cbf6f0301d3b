import collections
import io
import queue
import threading
from typing import Dict, Optional, Tuple

import numpy as np
import torch


BufferCache = Dict[Tuple[str, torch.dtype], torch.Tensor]


def get_or_resize(cache: BufferCache, key: str, shape, dtype) -> torch.Tensor:
    numel = int(np.prod(shape))
    buf = cache.get((key, dtype))
    if buf is None or buf.numel() < numel:
        buf = torch.empty(max(numel, 1 << 16), dtype=dtype, pin_memory=True)
        cache[(key, dtype)] = buf
    return buf[:numel].view(shape)


class ChunkSender:
    """Serialises stage outputs in the background so that decode is not held up."""

    def __init__(self, sink: io.BytesIO):
        self.sink = sink
        self.pending = queue.Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def save_async(self, request_id: str, payload: Dict[str, torch.Tensor], ready):
        self.pending.put((request_id, payload, ready))

    def _loop(self):
        while True:
            item = self.pending.get()
            if item is None:
                return
            request_id, payload, ready = item
            ready.synchronize()
            for name, tensor in payload.items():
                self.sink.write(request_id.encode())
                self.sink.write(name.encode())
                self.sink.write(tensor.numpy().tobytes())

    def close(self):
        self.pending.put(None)
        self.thread.join()


class MultimodalRunner:
    def __init__(self, talker: torch.nn.Module, sender: ChunkSender, device):
        self.talker = talker
        self.sender = sender
        self.device = device
        self.copy_stream = torch.cuda.Stream(device=device)
        self.host_buffers: BufferCache = {}
        self.stats = collections.Counter()

    def _to_host(self, key: str, src: torch.Tensor) -> torch.Tensor:
        dst = get_or_resize(self.host_buffers, key, src.shape, src.dtype)
        src.record_stream(self.copy_stream)
        dst.copy_(src, non_blocking=True)
        return dst

    def sample_tokens(self, embeds: torch.Tensor) -> Dict[str, torch.Tensor]:
        hidden = self.talker(embeds)
        return {
            "hidden": hidden,
            "codes": hidden.topk(4, dim=-1).indices.to(torch.int32),
        }

    def step(self, request_id: str, embeds: torch.Tensor):
        outputs = self.sample_tokens(embeds)
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        payload = {}
        with torch.cuda.stream(self.copy_stream):
            for name, tensor in outputs.items():
                payload[name] = self._to_host(name, tensor)
            ready = self.copy_stream.record_event()
        self.sender.save_async(request_id, payload, ready)
        self.stats["steps"] += 1


def build_talker(width: int, device) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(width, width),
        torch.nn.GELU(),
        torch.nn.Linear(width, width),
    ).to(device)


def main(steps: int = 64, width: int = 1024, sink: Optional[io.BytesIO] = None):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    sink = sink if sink is not None else io.BytesIO()
    sender = ChunkSender(sink)
    runner = MultimodalRunner(build_talker(width, device), sender, device)
    with torch.inference_mode():
        for step in range(steps):
            embeds = torch.randn((32, width), device=device)
            runner.step(f"r{step % 4}", embeds)
    sender.close()
    print(runner.stats["steps"], len(sink.getvalue()))


if __name__ == "__main__":
    main()
