import threading
from concurrent.futures import ThreadPoolExecutor, wait

import torch


class PerThreadStream(threading.local):
    def get(self, device: torch.device) -> torch.cuda.Stream:
        if not hasattr(self, "stream"):
            self.stream = torch.cuda.Stream(device)
        return self.stream


class ShardScorer:
    """Scores corpus shards from worker threads, each on a stream of its own."""

    def __init__(self, corpus: torch.Tensor, shards: int, k: int):
        self.shards = corpus.chunk(shards)
        self.k = k
        self.local = PerThreadStream()
        self.pool = ThreadPoolExecutor(shards, thread_name_prefix="scorer")

    def _score(self, shard_id: int, query: torch.Tensor, values: torch.Tensor, index: torch.Tensor, offset: int):
        stream = self.local.get(query.device)
        with torch.inference_mode(), torch.cuda.device(query.device), torch.cuda.stream(stream):
            sims = query @ self.shards[shard_id].t()
            top = sims.topk(self.k, dim=-1)
            lane = slice(shard_id * self.k, (shard_id + 1) * self.k)
            values[:, lane] = top.values
            index[:, lane] = top.indices + offset
            stream.synchronize()

    def search(self, query: torch.Tensor):
        n = len(self.shards) * self.k
        values = torch.empty(query.shape[0], n, device=query.device)
        index = torch.empty(query.shape[0], n, dtype=torch.long, device=query.device)
        torch.cuda.current_stream(query.device).synchronize()
        jobs, offset = [], 0
        for i, shard in enumerate(self.shards):
            jobs.append(self.pool.submit(self._score, i, query, values, index, offset))
            offset += shard.shape[0]
        wait(jobs)
        for j in jobs:
            j.result()
        best = values.topk(self.k, dim=-1)
        return best.values, index.gather(1, best.indices)


def main():
    corpus = torch.nn.functional.normalize(torch.randn(200_000, 256, device="cuda"), dim=-1)
    scorer = ShardScorer(corpus, 4, 10)
    for _ in range(5):
        q = torch.nn.functional.normalize(torch.randn(64, 256, device="cuda"), dim=-1)
        v, i = scorer.search(q)
        print(v[:, 0].mean().item(), i[0, :3].tolist())


if __name__ == "__main__":
    main()
