import json
import struct
from typing import Dict, Iterator, Tuple

import numpy as np
import torch

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
CUDA_STAGE_BUFFERS = 2


class StagedReader:
    """Loads all tensors of one file through a small ring of pinned buffers."""

    def __init__(self, path: str, device: torch.device, staging_bytes: int = 64 << 20):
        self.path = path
        self.device = device
        self.staging_bytes = staging_bytes
        with open(path, "rb") as f:
            (header_len,) = struct.unpack("<Q", f.read(8))
            self.header = json.loads(f.read(header_len))
        self.header.pop("__metadata__", None)
        self.base = 8 + header_len
        self.stage = [torch.empty(staging_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(CUDA_STAGE_BUFFERS)]
        self.uploaded = [torch.cuda.Event() for _ in range(CUDA_STAGE_BUFFERS)]
        self.used = [False] * CUDA_STAGE_BUFFERS
        self.turn = 0

    def _chunks(self, begin: int, end: int) -> Iterator[Tuple[int, int]]:
        while begin < end:
            size = min(self.staging_bytes, end - begin)
            yield begin, size
            begin += size

    def _acquire(self) -> int:
        slot = self.turn
        self.turn = (self.turn + 1) % CUDA_STAGE_BUFFERS
        if self.used[slot]:
            self.uploaded[slot].synchronize()
        self.used[slot] = True
        return slot

    def get_tensors(self) -> Dict[str, torch.Tensor]:
        stream = torch.cuda.current_stream(self.device)
        raw = np.memmap(self.path, dtype=np.uint8, mode="r", offset=self.base)
        tensors = {}
        for name, info in self.header.items():
            begin, end = info["data_offsets"]
            dest = torch.empty(end - begin, dtype=torch.uint8, device=self.device)
            for offset, size in self._chunks(begin, end):
                slot = self._acquire()
                np.copyto(self.stage[slot].numpy()[:size], raw[offset:offset + size])
                dest[offset - begin:offset - begin + size].copy_(self.stage[slot][:size], non_blocking=True)
                self.uploaded[slot].record(stream)
            tensors[name] = dest.view(DTYPES[info["dtype"]]).view(info["shape"])
        done = torch.cuda.Event()
        done.record(stream)
        done.synchronize()
        return tensors


def load_model(paths, device: str = "cuda") -> Dict[str, torch.Tensor]:
    state = {}
    for path in paths:
        state.update(StagedReader(path, torch.device(device)).get_tensors())
    return state
