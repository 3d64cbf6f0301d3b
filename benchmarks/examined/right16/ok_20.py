"""Two-tower retrieval scorer; the towers run side by side."""
from __future__ import annotations

import torch


class Tower(torch.nn.Module):
    def __init__(self, vocab: int, dim: int, depth: int):
        super().__init__()
        self.embed = torch.nn.EmbeddingBag(vocab, dim, mode="mean")
        self.body = torch.nn.Sequential(
            *[torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.ReLU()) for _ in range(depth)]
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.body(self.embed(ids)), dim=-1)


class TwoTowerScorer:
    def __init__(self, query: Tower, item: Tower, device: torch.device):
        self.query = query.to(device).eval()
        self.item = item.to(device).eval()
        self.device = device
        self._branch = torch.cuda.Stream(device=device)

    @torch.inference_mode()
    def score(self, query_ids: torch.Tensor, item_ids: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream(self.device)
        query_ids = query_ids.to(self.device)
        item_ids = item_ids.to(self.device)
        fork = main.record_event()
        self._branch.wait_event(fork)
        try:
            with torch.cuda.stream(self._branch):
                items = self.item(item_ids)
            queries = self.query(query_ids)
        finally:
            join = self._branch.record_event()
            main.wait_event(join)
        scores = queries @ items.t()
        items.record_stream(main)
        return scores

    def top(self, query_ids: torch.Tensor, item_ids: torch.Tensor, k: int) -> list[list[int]]:
        scores = self.score(query_ids, item_ids)
        return scores.topk(min(k, scores.shape[1]), dim=1).indices.tolist()


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    scorer = TwoTowerScorer(Tower(10_000, 128, 3), Tower(50_000, 128, 6), device)
    for _ in range(10):
        queries = torch.randint(0, 10_000, (32, 12))
        items = torch.randint(0, 50_000, (2048, 20))
        ranked = scorer.top(queries, items, 5)
    print(ranked[0])
    device_queries = torch.randint(0, 10_000, (8, 12), device=device)
    device_items = torch.randint(0, 50_000, (512, 20), device=device)
    print(scorer.score(device_queries, device_items).mean().item())


if __name__ == "__main__":
    main()
