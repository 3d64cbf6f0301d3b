from typing import Sequence

import torch
from cuda.bindings import runtime as cudart


def _check(err):
    if isinstance(err, tuple):
        err = err[0]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"cudaMemcpyAsync failed: {err}")


def _copy_async(dst_ptr, src_ptr, nbytes, stream):
    kind = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
    _check(cudart.cudaMemcpyAsync(dst_ptr, src_ptr, nbytes, kind, stream.cuda_stream))


def scatter_cpu_to_paged_kv(
    chunks: Sequence[torch.Tensor],
    layer_ptrs: Sequence[int],
    block_ids: Sequence[int],
    block_bytes: int,
    blocks_per_chunk: int,
    stream: torch.cuda.Stream,
) -> None:
    """Write CPU chunks ([layers, blocks, bytes], uint8) into the paged KV cache.

    Asynchronous: the caller must synchronize `stream` before the blocks are used.
    """
    pinned = [c if c.is_pinned() else c.contiguous().pin_memory() for c in chunks]
    for i, chunk in enumerate(pinned):
        ids = block_ids[i * blocks_per_chunk : (i + 1) * blocks_per_chunk]
        base = chunk.data_ptr()
        layer_stride = chunk.shape[1] * block_bytes
        for layer, layer_ptr in enumerate(layer_ptrs):
            for slot, block_id in enumerate(ids):
                _copy_async(
                    layer_ptr + block_id * block_bytes,
                    base + layer * layer_stride + slot * block_bytes,
                    block_bytes,
                    stream,
                )


class EngineDrivenRetriever:
    """Retrieve path of the pickle transport: one KV group after the other."""

    def __init__(self, kv_groups, blocks_per_chunk):
        self.kv_groups = kv_groups
        self.blocks_per_chunk = blocks_per_chunk
        self.load_stream = torch.cuda.Stream()

    def _layer_layout(self, group):
        first = group[0]
        return [t.data_ptr() for t in group], first[0].numel() * first.element_size()

    def retrieve(self, payload, block_ids):
        self.load_stream.wait_stream(torch.cuda.current_stream())
        for gid, group in enumerate(self.kv_groups):
            layer_ptrs, block_bytes = self._layer_layout(group)
            chunks = [torch.frombuffer(bytearray(b), dtype=torch.uint8) for b in payload[gid]]
            chunks = [c.view(len(group), -1, block_bytes) for c in chunks]
            scatter_cpu_to_paged_kv(
                chunks,
                layer_ptrs,
                block_ids[gid],
                block_bytes,
                self.blocks_per_chunk,
                self.load_stream,
            )
        self.load_stream.synchronize()
        return True
