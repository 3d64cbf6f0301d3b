from dataclasses import dataclass
from typing import Dict, List

import torch
import torch.nn as nn


@dataclass
class GraphEntry:
    graph: torch.cuda.CUDAGraph
    input_ids: torch.Tensor
    cache_lens: torch.Tensor
    logits: torch.Tensor


class PagedDecoder(nn.Module):
    def __init__(self, vocab: int, hidden: int, num_pages: int, page_size: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.qkv = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("kv_pages", torch.randn(num_pages, page_size, hidden) * 0.02)

    def forward(self, input_ids, cache_lens, page_table, workspace):
        q = self.qkv(self.embed(input_ids))
        pages = self.kv_pages[page_table].flatten(1, 2)
        scores = torch.einsum("bh,bth->bt", q, pages)
        positions = torch.arange(pages.shape[1], device=q.device)
        scores = scores.masked_fill(positions[None] >= cache_lens[:, None], float("-inf"))
        torch.softmax(scores, dim=-1, out=workspace)
        return self.head(torch.einsum("bt,bth->bh", workspace, pages))


class DecodeGraphRunner:
    """One CUDA graph per batch size for the decode step."""

    def __init__(self, model: PagedDecoder, batch_sizes: List[int], pages_per_req: int, page_size: int):
        self.model = model
        self.pages_per_req = pages_per_req
        self.page_size = page_size
        self.device = torch.device("cuda")
        self.entries: Dict[int, GraphEntry] = {bs: self.capture(bs) for bs in batch_sizes}

    @torch.inference_mode()
    def capture(self, bs: int) -> GraphEntry:
        input_ids = torch.zeros(bs, dtype=torch.long, device=self.device)
        cache_lens = torch.ones(bs, dtype=torch.long, device=self.device)
        page_table = torch.arange(bs * self.pages_per_req, device=self.device).view(bs, self.pages_per_req)
        workspace = torch.empty(bs, self.pages_per_req * self.page_size, device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(input_ids, cache_lens, page_table, workspace)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self.model(input_ids, cache_lens, page_table, workspace)
        return GraphEntry(graph, input_ids, cache_lens, logits)

    @torch.inference_mode()
    def decode(self, tokens: torch.Tensor, lens: torch.Tensor) -> torch.Tensor:
        entry = self.entries[tokens.shape[0]]
        entry.input_ids.copy_(tokens)
        entry.cache_lens.copy_(lens)
        entry.graph.replay()
        return entry.logits.argmax(dim=-1)


def generate(steps: int = 256, bs: int = 32) -> List[List[int]]:
    model = PagedDecoder(32000, 1024, num_pages=1024, page_size=16).cuda().eval()
    runner = DecodeGraphRunner(model, [8, 16, 32], pages_per_req=16, page_size=16)
    tokens = torch.randint(0, 32000, (bs,), device="cuda")
    lens = torch.full((bs,), 64, dtype=torch.long, device="cuda")
    out = []
    for _ in range(steps):
        tokens = runner.decode(tokens, lens)
        lens = (lens + 1).clamp(max=256)
        out.append(tokens.tolist())
    return out
