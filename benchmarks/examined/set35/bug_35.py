"""Streaming vocoder: decode lanes copy waveform chunks into a set of pinned slots."""
from collections import deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional

import torch
import torch.nn as nn


@dataclass
class Slot:
    wave: torch.Tensor
    done: torch.cuda.Event


@dataclass
class Pending:
    slot: Slot
    samples: int


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
        self.pending: Dict[str, Deque[Pending]] = {}
        self.lane_of: Dict[str, int] = {}
        torch.cuda.synchronize()

    def open(self, request: str) -> None:
        self.lane_of[request] = len(self.lane_of) % len(self.lanes)
        self.pending[request] = deque()

    @torch.inference_mode()
    def feed(self, request: str, codes: List[int]) -> bool:
        if not self.free:
            return False
        slot = self.free.popleft()
        lane = self.lanes[self.lane_of[request]]
        with torch.cuda.stream(lane):
            ids = torch.tensor([codes]).pin_memory().to("cuda", non_blocking=True)
            wave = self.model(ids)
            slot.wave[: wave.numel()].copy_(wave, non_blocking=True)
            slot.done.record(lane)
        self.pending[request].append(Pending(slot, wave.numel()))
        return True

    def collect(self, request: str) -> Optional[bytes]:
        queue = self.pending[request]
        if not queue or not queue[0].slot.done.query():
            return None
        item = queue.popleft()
        data = item.slot.wave[: item.samples].numpy().tobytes()
        self.free.append(item.slot)
        return data

    def finish(self, request: str) -> List[bytes]:
        out = []
        for item in self.pending.pop(request):
            item.slot.done.synchronize()
            out.append(item.slot.wave[: item.samples].numpy().tobytes())
            self.free.append(item.slot)
        return out

    def abort(self, request: str) -> None:
        for item in self.pending.pop(request, ()):
            self.free.appendleft(item.slot)


def main() -> None:
    scheduler = StreamingScheduler(Vocoder())
    codes = list(range(100))
    sizes: Dict[str, int] = {}
    for i in range(64):
        name = f"req-{i}"
        scheduler.open(name)
        for _ in range(3):
            scheduler.feed(name, codes)
        if i % 3 == 0:
            scheduler.abort(name)
            continue
        sizes[name] = sum(len(c) for c in scheduler.finish(name))
    print(sum(sizes.values()))


if __name__ == "__main__":
    main()
