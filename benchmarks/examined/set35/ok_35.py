"""Streaming vocoder lanes; pinned slots return only once their event has completed."""
from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class Slot:
    wave: torch.Tensor
    done: torch.cuda.Event


class Vocoder(nn.Module):
    def __init__(self, codebook: int = 2048, width: int = 512, hop: int = 480):
        super().__init__()
        self.embed = nn.Embedding(codebook, width)
        self.body = nn.Sequential(
            nn.Conv1d(width, width, 7, padding=3), nn.GELU(), nn.Conv1d(width, hop, 1), nn.Tanh()
        )

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        h = self.embed(codes).transpose(1, 2)
        return self.body(h).transpose(1, 2).reshape(-1)


class StreamingScheduler:
    def __init__(self, model: Vocoder, lanes: int = 2, slots: int = 8, max_samples: int = 48000):
        self.model = model.cuda().eval()
        self.lanes = [torch.cuda.Stream() for _ in range(lanes)]
        self.free: Deque[Slot] = deque(
            Slot(torch.empty(max_samples, pin_memory=True), torch.cuda.Event()) for _ in range(slots)
        )
        self.retired: List[Slot] = []
        self.pending: Dict[str, Deque[Tuple[Slot, int]]] = {}
        self.lane_of: Dict[str, torch.cuda.Stream] = {}
        torch.cuda.synchronize()

    def open(self, request: str) -> None:
        self.lane_of[request] = self.lanes[len(self.lane_of) % len(self.lanes)]
        self.pending[request] = deque()

    def _reclaim(self) -> None:
        waiting = []
        for slot in self.retired:
            if slot.done.query():
                self.free.append(slot)
            else:
                waiting.append(slot)
        self.retired = waiting

    @torch.inference_mode()
    def feed(self, request: str, codes: List[int]) -> bool:
        self._reclaim()
        if not self.free:
            return False
        slot = self.free.popleft()
        lane = self.lane_of[request]
        with torch.cuda.stream(lane):
            ids = torch.tensor([codes]).pin_memory().to("cuda", non_blocking=True)
            wave = self.model(ids)
            slot.wave[: wave.numel()].copy_(wave, non_blocking=True)
            slot.done.record(lane)
        self.pending[request].append((slot, wave.numel()))
        return True

    def collect(self, request: str) -> Optional[bytes]:
        queue = self.pending[request]
        if not queue or not queue[0][0].done.query():
            return None
        slot, samples = queue.popleft()
        data = slot.wave[:samples].numpy().tobytes()
        self.free.append(slot)
        return data

    def abort(self, request: str) -> None:
        self.retired.extend(slot for slot, _ in self.pending.pop(request, ()))


def main() -> None:
    scheduler = StreamingScheduler(Vocoder())
    total = 0
    for i in range(64):
        name = f"req-{i}"
        scheduler.open(name)
        wanted = 0
        for _ in range(3):
            wanted += scheduler.feed(name, list(range(100)))
        if i % 3 == 0:
            scheduler.abort(name)
            continue
        while wanted:
            data = scheduler.collect(name)
            if data is not None:
                total += len(data)
                wanted -= 1
    print(total)


if __name__ == "__main__":
    main()
