import os
from typing import Dict, Iterator, List, Tuple

import numpy as np
import torch
import torch.nn as nn


class ShardFile:
    """Raw float16 rows of one embedding shard on disk."""

    def __init__(self, path: str, dim: int):
        self.path = path
        self.dim = dim
        self.rows = os.path.getsize(path) // (2 * dim)

    def chunks(self, rows_per_chunk: int) -> Iterator[Tuple[int, np.ndarray]]:
        data = np.memmap(self.path, dtype=np.float16, mode="r", shape=(self.rows, self.dim))
        for begin in range(0, self.rows, rows_per_chunk):
            yield begin, data[begin:begin + rows_per_chunk]


class ChunkUploader:
    """Copies host rows to the device in pieces that fit the page-locked buffer."""

    def __init__(self, rows_per_chunk: int, dim: int, device: torch.device):
        self.rows_per_chunk = rows_per_chunk
        self.device = device
        self.host = torch.empty(rows_per_chunk, dim, dtype=torch.float16, pin_memory=True)
        self.host_np = self.host.numpy()
        self.stream = torch.cuda.Stream(device)

    def upload(self, shard: ShardFile, table: torch.Tensor, offset: int) -> int:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for begin, rows in shard.chunks(self.rows_per_chunk):
                n = rows.shape[0]
                np.copyto(self.host_np[:n], rows)
                dst = table[offset + begin:offset + begin + n]
                dst.copy_(self.host[:n], non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return shard.rows


class ShardedEmbedding(nn.Module):
    def __init__(self, paths: List[str], dim: int, rows_per_chunk: int = 65536):
        super().__init__()
        self.device = torch.device("cuda")
        self.shards = [ShardFile(p, dim) for p in paths]
        total = sum(s.rows for s in self.shards)
        self.register_buffer("table", torch.empty(total, dim, dtype=torch.float16, device=self.device))
        self.uploader = ChunkUploader(rows_per_chunk, dim, self.device)

    def load(self) -> None:
        offset = 0
        for shard in self.shards:
            offset += self.uploader.upload(shard, self.table, offset)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table.index_select(0, ids)


def search(paths: List[str], queries: np.ndarray, dim: int = 768, k: int = 10) -> Dict[int, List[int]]:
    embedding = ShardedEmbedding(paths, dim)
    embedding.load()
    q = torch.from_numpy(queries.astype(np.float16)).cuda()
    scores = q @ embedding.table.t()
    top = scores.topk(k, dim=1).indices.tolist()
    return {i: ids for i, ids in enumerate(top)}
