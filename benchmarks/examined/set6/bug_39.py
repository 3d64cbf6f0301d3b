from typing import Dict, Optional, Tuple

import torch


class BatchDecodeWrapper:
    """Split-KV decode attention, partial results live in a caller provided workspace."""

    def __init__(self, float_workspace_buffer: torch.Tensor, num_splits: int = 8):
        self._float_workspace_buffer = float_workspace_buffer
        self._num_splits = num_splits
        self._graph_key: Optional[Tuple] = None
        self._partial: Optional[torch.Tensor] = None

    def reset_workspace_buffer(self, float_workspace_buffer: torch.Tensor) -> None:
        self._float_workspace_buffer = float_workspace_buffer
        self._graph_key = None
        self._partial = None

    def plan(self, batch_size: int, num_heads: int, head_dim: int) -> None:
        key = (batch_size, num_heads, head_dim)
        if key == self._graph_key:
            return
        need = self._num_splits * batch_size * num_heads * head_dim
        if need > self._float_workspace_buffer.numel():
            raise ValueError(f"workspace holds {self._float_workspace_buffer.numel()}, need {need}")
        self._partial = self._float_workspace_buffer[:need].view(
            self._num_splits, batch_size, num_heads, head_dim
        )
        self._graph_key = key

    def run(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor):
        for i, (ks, vs) in enumerate(zip(k.chunk(self._num_splits, 1), v.chunk(self._num_splits, 1))):
            logits = torch.einsum("bhd,bnhd->bhn", q, ks)
            self._partial[i].copy_(torch.einsum("bhn,bnhd->bhd", logits.softmax(-1), vs))
        torch.mean(self._partial, dim=0, out=out)
        return out


class DecodeGraphRunner:
    def __init__(self, num_heads: int, head_dim: int, kv_len: int, workspace_numel: int):
        self.shape = (num_heads, head_dim)
        self.kv_len = kv_len
        self.wrapper = BatchDecodeWrapper(torch.empty(workspace_numel, device="cuda"))
        self.graphs: Dict[int, torch.cuda.CUDAGraph] = {}
        self.static: Dict[int, Dict[str, torch.Tensor]] = {}

    def _capture(self, batch_size: int) -> None:
        h, d = self.shape
        self.wrapper.plan(batch_size, h, d)
        static = {
            "q": torch.zeros(batch_size, h, d, device="cuda"),
            "k": torch.zeros(batch_size, self.kv_len, h, d, device="cuda"),
            "v": torch.zeros(batch_size, self.kv_len, h, d, device="cuda"),
            "out": torch.zeros(batch_size, h, d, device="cuda"),
        }
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.wrapper.run(**static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.wrapper.run(**static)
        self.graphs[batch_size], self.static[batch_size] = graph, static

    def _reserve(self, batch_size: int) -> None:
        need = self.wrapper._num_splits * batch_size * self.shape[0] * self.shape[1]
        if need > self.wrapper._float_workspace_buffer.numel():
            self.wrapper.reset_workspace_buffer(torch.empty(2 * need, device="cuda"))

    @torch.inference_mode()
    def decode(self, q, k, v):
        batch_size = q.size(0)
        if batch_size not in self.graphs:
            self._reserve(batch_size)
            self._capture(batch_size)
        static = self.static[batch_size]
        for name, value in (("q", q), ("k", k), ("v", v)):
            static[name].copy_(value)
        self.graphs[batch_size].replay()
        return static["out"].clone()
