"""Block swapping between a device KV pool and a pinned host pool."""
from typing import Dict, Iterable, List, Tuple

import torch


class BlockSwapper:
    def __init__(self, device: torch.device, device_blocks: int, host_blocks: int, block_shape: Tuple[int, ...]):
        self.device = device
        self.pool = torch.zeros((device_blocks, *block_shape), dtype=torch.float16, device=device)
        self.host = torch.zeros((host_blocks, *block_shape), dtype=torch.float16, pin_memory=True)
        self.out_stream = torch.cuda.Stream(device=device)
        self.in_stream = torch.cuda.Stream(device=device)
        for stream in (self.out_stream, self.in_stream):
            stream.wait_stream(torch.cuda.current_stream(device))
            self.pool.record_stream(stream)
        self._moved: Dict[int, torch.cuda.Event] = {}
        self._host_moved: Dict[int, torch.cuda.Event] = {}

    def _transfer(self, stream: torch.cuda.Stream, pairs: List[Tuple[int, int]], outward: bool) -> None:
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for dev_id, host_id in pairs:
                for earlier in (self._moved.get(dev_id), self._host_moved.get(host_id)):
                    if earlier is not None:
                        stream.wait_event(earlier)
                if outward:
                    self.host[host_id].copy_(self.pool[dev_id], non_blocking=True)
                else:
                    self.pool[dev_id].copy_(self.host[host_id], non_blocking=True)
                event = torch.cuda.Event()
                event.record(stream)
                self._moved[dev_id] = event
                self._host_moved[host_id] = event

    def swap_out(self, pairs: Iterable[Tuple[int, int]]) -> None:
        self._transfer(self.out_stream, list(pairs), outward=True)

    def swap_in(self, pairs: Iterable[Tuple[int, int]]) -> None:
        self._transfer(self.in_stream, list(pairs), outward=False)

    def acquire(self, dev_ids: Iterable[int]) -> torch.Tensor:
        """Makes the blocks usable on the current stream and returns the pool."""
        current = torch.cuda.current_stream(self.device)
        for dev_id in dev_ids:
            event = self._moved.get(dev_id)
            if event is not None:
                current.wait_event(event)
        self.pool.record_stream(current)
        return self.pool

    def peek_host(self, host_id: int) -> torch.Tensor:
        event = self._host_moved.get(host_id)
        if event is not None:
            event.synchronize()
        return self.host[host_id].clone()


def append_token(swapper: BlockSwapper, block: int, slot: int, kv: torch.Tensor) -> None:
    pool = swapper.acquire([block])
    pool[block, slot].copy_(kv)


def attend(swapper: BlockSwapper, query: torch.Tensor, blocks: List[int]) -> torch.Tensor:
    pool = swapper.acquire(blocks)
    keys = pool[torch.tensor(blocks, device=pool.device)].flatten(0, 1)
    weights = torch.softmax(query @ keys.t() * keys.shape[-1] ** -0.5, dim=-1)
    return weights @ keys
