"""Two-tower ranking captured as one graph with a forked tower."""
import threading

import numpy as np
import torch
import torch.nn as nn


class Tower(nn.Module):
    def __init__(self, dim: int, out: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.net(x), dim=-1)


class RankingGraph:
    def __init__(self, users: int, items: int, dim: int, device: str = "cuda:0"):
        self.device = torch.device(device)
        self.user_tower = Tower(dim, 64).to(self.device).eval()
        self.item_tower = Tower(dim, 64).to(self.device).eval()
        self.user_host = torch.zeros(users, dim, pin_memory=True)
        self.item_host = torch.zeros(items, dim, pin_memory=True)
        self.score_host = torch.zeros(users, items, pin_memory=True)
        self.user_in = torch.zeros(users, dim, device=self.device)
        self.item_in = torch.zeros(items, dim, device=self.device)
        self.scores = torch.zeros(users, items, device=self.device)
        self.stream = torch.cuda.Stream(self.device)
        self.branch = torch.cuda.Stream(self.device)
        self.served = torch.cuda.Event()
        self.lock = threading.Lock()
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _body(self) -> None:
        current = torch.cuda.current_stream(self.device)
        self.branch.wait_stream(current)
        with torch.cuda.stream(self.branch):
            self.item_in.copy_(self.item_host, non_blocking=True)
            items = self.item_tower(self.item_in)
        self.user_in.copy_(self.user_host, non_blocking=True)
        users = self.user_tower(self.user_in)
        current.wait_stream(self.branch)
        torch.matmul(users, items.t(), out=self.scores)
        self.score_host.copy_(self.scores, non_blocking=True)

    @torch.no_grad()
    def _capture(self) -> None:
        torch.cuda.synchronize(self.device)
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._body()
        torch.cuda.synchronize(self.device)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._body()

    def rank(self, users: np.ndarray, items: np.ndarray, k: int) -> np.ndarray:
        with self.lock:
            self.user_host.numpy()[...] = users
            self.item_host.numpy()[...] = items
            with torch.cuda.stream(self.stream):
                self.graph.replay()
                self.served.record(self.stream)
            self.served.synchronize()
            return np.argpartition(-self.score_host.numpy(), k, axis=1)[:, :k].copy()


class Frontend(threading.Thread):
    def __init__(self, ranking: RankingGraph, seed: int, requests: int):
        super().__init__()
        self.ranking = ranking
        self.rng = np.random.default_rng(seed)
        self.requests = requests
        self.hits = np.zeros(4096, dtype=np.int64)

    def run(self) -> None:
        for _ in range(self.requests):
            users = self.rng.random((32, 128), dtype=np.float32)
            items = self.rng.random((4096, 128), dtype=np.float32)
            top = self.ranking.rank(users, items, 10)
            self.hits += np.bincount(top.ravel(), minlength=4096)


def main() -> None:
    ranking = RankingGraph(32, 4096, 128)
    threads = [Frontend(ranking, seed, 100) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(sum(t.hits for t in threads).max())


if __name__ == "__main__":
    main()
