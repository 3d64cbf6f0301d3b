"""Image embeddings are computed by one service and picked up by LLM workers from page-locked shared memory."""
import threading
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch
from torch import nn


class SharedEmbedCache:
    def __init__(self, slots: int, tokens: int, dim: int):
        self.data = torch.empty((slots, tokens, dim), dtype=torch.bfloat16).share_memory_()
        nbytes = self.data.numel() * self.data.element_size()
        status = torch.cuda.cudart().cudaHostRegister(self.data.data_ptr(), nbytes, 0)
        if int(status) != 0:
            raise RuntimeError(f"cudaHostRegister failed: {status}")
        self._free = list(range(slots))
        self._ready: Dict[str, Tuple[int, int]] = {}
        self._cond = threading.Condition()

    def reserve(self) -> int:
        with self._cond:
            self._cond.wait_for(lambda: bool(self._free))
            return self._free.pop()

    def copy_to_cache(self, slot: int, embed: torch.Tensor) -> None:
        self.data[slot, : embed.shape[0]].copy_(embed, non_blocking=True)

    def mark_ready(self, entries: List[Tuple[str, int, int]]) -> None:
        with self._cond:
            for uid, slot, length in entries:
                self._ready[uid] = (slot, length)
            self._cond.notify_all()

    def take(self, uid: str, timeout: float = 30.0) -> torch.Tensor:
        with self._cond:
            if not self._cond.wait_for(lambda: uid in self._ready, timeout):
                raise TimeoutError(uid)
            slot, length = self._ready.pop(uid)
        rows = self.data[slot, :length].clone()
        with self._cond:
            self._free.append(slot)
            self._cond.notify_all()
        return rows


@dataclass
class ImageItem:
    uid: str
    pixels: torch.Tensor


class VisionService:
    def __init__(self, tower: nn.Module, cache: SharedEmbedCache, device: str = "cuda:0"):
        self.tower = tower.to(device, torch.bfloat16).eval()
        self.cache = cache
        self.device = device

    @torch.inference_mode()
    def encode(self, items: List[ImageItem]) -> None:
        batch = torch.stack([item.pixels for item in items]).to(self.device, torch.bfloat16)
        embeds = self.tower(batch)
        entries = []
        for item, embed in zip(items, embeds):
            slot = self.cache.reserve()
            self.cache.copy_to_cache(slot, embed)
            entries.append((item.uid, slot, embed.shape[0]))
        if entries:
            self.cache.mark_ready(entries)
            torch.cuda.current_stream().synchronize()


def worker(cache: SharedEmbedCache, uids: List[str], sink: List[torch.Tensor]) -> None:
    for uid in uids:
        sink.append(cache.take(uid))


def main() -> None:
    cache = SharedEmbedCache(64, 576, 4096)
    tower = nn.Sequential(nn.Linear(588, 1024), nn.GELU(), nn.Linear(1024, 4096))
    service = VisionService(tower, cache)
    uids = [f"img{i}" for i in range(32)]
    sink: List[torch.Tensor] = []
    reader = threading.Thread(target=worker, args=(cache, uids, sink))
    reader.start()
    for begin in range(0, 32, 8):
        service.encode([ImageItem(u, torch.randn(576, 588)) for u in uids[begin : begin + 8]])
    reader.join()


if __name__ == "__main__":
    main()
