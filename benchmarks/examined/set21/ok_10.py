from collections import deque
from typing import Deque, Dict, List, Tuple

import torch
import torch.nn as nn


class TransferStreams:
    """Pool of streams and events for batched host copies."""

    def __init__(self):
        self.streams: List[torch.cuda.Stream] = []
        self.events: List[torch.cuda.Event] = []

    def acquire(self) -> Tuple[torch.cuda.Stream, torch.cuda.Event]:
        stream = self.streams.pop() if self.streams else torch.cuda.Stream()
        event = self.events.pop() if self.events else torch.cuda.Event()
        return stream, event

    def release(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        self.streams.append(stream)
        self.events.append(event)


class ECCPUWorker:
    def __init__(self):
        self.pool = TransferStreams()
        self.inflight: Deque[Tuple[torch.cuda.Stream, torch.cuda.Event, Dict[str, torch.Tensor]]] = deque()

    def save_batch(self, outputs: Dict[str, torch.Tensor]) -> None:
        if not outputs:
            return
        stream, end_event = self.pool.acquire()
        stream.wait_stream(torch.cuda.current_stream())
        entries = {}
        with torch.cuda.stream(stream):
            for mm_hash, output in outputs.items():
                entry = torch.empty(output.shape, dtype=output.dtype, pin_memory=True)
                entry.copy_(output, non_blocking=True)
                output.record_stream(stream)
                entries[mm_hash] = entry
            end_event.record(stream)
        self.inflight.append((stream, end_event, entries))

    def poll(self, block: bool = False) -> Dict[str, torch.Tensor]:
        finished: Dict[str, torch.Tensor] = {}
        while self.inflight:
            stream, end_event, entries = self.inflight[0]
            if block:
                end_event.synchronize()
            elif not end_event.query():
                break
            self.inflight.popleft()
            self.pool.release(stream, end_event)
            finished.update(entries)
        return finished


class ECCPUConnector:
    def __init__(self, store_path: str):
        self.worker = ECCPUWorker()
        self.store_path = store_path
        self.ready: Dict[str, str] = {}

    def publish(self, block: bool = False) -> None:
        for mm_hash, entry in self.worker.poll(block).items():
            path = f"{self.store_path}/{mm_hash}.bin"
            entry.numpy().tofile(path)
            self.ready[mm_hash] = path


@torch.inference_mode()
def serve(store_path: str, steps: int = 64, hidden: int = 2048) -> Dict[str, str]:
    encoder = nn.Sequential(nn.Linear(1176, hidden), nn.GELU(), nn.Linear(hidden, hidden)).cuda().eval()
    decoder = nn.Sequential(*[nn.Linear(hidden, hidden) for _ in range(16)]).cuda().eval()
    connector = ECCPUConnector(store_path)
    state = torch.zeros(256, hidden, device="cuda")
    for i in range(steps):
        pixels = torch.randn(4096, 1176).pin_memory().cuda(non_blocking=True)
        output = encoder(pixels)
        state = decoder(state + output.mean(dim=0, keepdim=True))
        connector.worker.save_batch({f"img-{i}": output})
        connector.publish()
    connector.publish(block=True)
    return connector.ready
