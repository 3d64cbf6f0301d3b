"""Distance search over micro-batches spread across a fixed set of lanes."""
from typing import List, Tuple

import torch


class Lane:
    def __init__(self, device: torch.device, rows: int, corpus: int):
        self.stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(self.stream):
            self.scores = torch.empty(rows, corpus, device=device)


class LaneSearch:
    def __init__(self, corpus: torch.Tensor, lanes: int = 2, rows: int = 256):
        self.device = corpus.device
        self.rows = rows
        self.corpus = corpus.t().contiguous()
        self.norms = corpus.square().sum(dim=1)
        self.lanes = [Lane(self.device, rows, corpus.shape[0]) for _ in range(lanes)]
        self.turn = 0

    def _search(self, lane: Lane, queries: torch.Tensor, dist: torch.Tensor, index: torch.Tensor) -> None:
        scores = lane.scores[: queries.shape[0]]
        torch.matmul(queries, self.corpus, out=scores)
        scores.mul_(-2.0).add_(self.norms)
        torch.topk(scores, dist.shape[1], dim=1, largest=False, out=(dist, index))

    @torch.no_grad()
    def search(self, queries: torch.Tensor, k: int) -> Tuple[torch.Tensor, torch.Tensor]:
        n = queries.shape[0]
        dist = torch.empty(n, k, device=self.device)
        index = torch.empty(n, k, dtype=torch.long, device=self.device)
        current = torch.cuda.current_stream(self.device)
        used: List[Lane] = []
        try:
            for start in range(0, n, self.rows):
                lane = self.lanes[self.turn]
                self.turn = (self.turn + 1) % len(self.lanes)
                if lane not in used:
                    lane.stream.wait_stream(current)
                    used.append(lane)
                stop = min(start + self.rows, n)
                with torch.cuda.stream(lane.stream):
                    self._search(lane, queries[start:stop], dist[start:stop], index[start:stop])
        finally:
            for lane in used:
                current.wait_stream(lane.stream)
        dist.add_(queries.square().sum(dim=1, keepdim=True)).clamp_min_(0.0)
        return dist, index


def recall(searcher: LaneSearch, queries: torch.Tensor, truth: torch.Tensor, k: int = 10) -> float:
    _, index = searcher.search(queries, k)
    hits = (index == truth[:, None]).any(dim=1)
    return hits.float().mean().item()


def search_many(searcher: LaneSearch, groups: List[torch.Tensor], k: int) -> List[List[List[int]]]:
    results = [searcher.search(g, k) for g in groups]
    return [index.tolist() for _, index in results]
