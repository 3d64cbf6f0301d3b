from typing import Dict, List, Tuple

import torch


class TwoBranchBlock(torch.nn.Module):
    """Attention and MLP run side by side (parallel residual)."""

    def __init__(self, dim: int, heads: int, side: torch.cuda.Stream):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)
        self.fc1 = torch.nn.Linear(dim, 4 * dim)
        self.fc2 = torch.nn.Linear(4 * dim, dim)
        self.heads = heads
        self.side = side

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(out.transpose(1, 2).reshape(b, n, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        current = torch.cuda.current_stream()
        fork = current.record_event()
        self.side.wait_event(fork)
        with torch.cuda.stream(self.side):
            mlp = self.fc2(torch.nn.functional.gelu(self.fc1(h)))
            join = self.side.record_event()
        attn = self._attention(h)
        current.wait_event(join)
        return x + attn + mlp


class GraphRunner:
    def __init__(self, blocks: torch.nn.ModuleList, device: torch.device):
        self.blocks = blocks
        self.device = device
        self.entries: Dict[Tuple[int, ...], tuple] = {}

    def _body(self, x: torch.Tensor) -> torch.Tensor:
        for b in self.blocks:
            x = b(x)
        return x

    def _capture(self, sample: torch.Tensor) -> tuple:
        static_in = sample.clone()
        warm = torch.cuda.Stream(self.device)
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._body(static_in)
        torch.cuda.current_stream().wait_stream(warm)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_out = self._body(static_in)
        return graph, static_in, static_out

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        key = tuple(x.shape)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = self._capture(x)
        graph, static_in, static_out = entry
        static_in.copy_(x, non_blocking=True)
        graph.replay()
        return static_out.clone()


def build(depth: int, dim: int, heads: int, device: torch.device) -> GraphRunner:
    side = torch.cuda.Stream(device)
    blocks = torch.nn.ModuleList(TwoBranchBlock(dim, heads, side) for _ in range(depth))
    return GraphRunner(blocks.to(device).eval(), device)
