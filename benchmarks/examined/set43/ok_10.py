from collections import deque
from typing import Deque, List, Tuple

import torch
import torch.nn as nn


class Bucket:
    """One captured graph with its own static output."""

    def __init__(self, model: nn.Module, ids: torch.Tensor, pool):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            logits = model(ids)
            self.token = logits.argmax(-1)
            self.score = logits.amax(-1)
        self.host_token = torch.empty(self.token.shape, dtype=self.token.dtype, pin_memory=True)
        self.host_score = torch.empty(self.score.shape, dtype=self.score.dtype, pin_memory=True)
        self.fetched = torch.cuda.Event()


class PingPong:
    def __init__(self, model: nn.Module, batch: int):
        self.ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        self.buckets = [Bucket(model, self.ids, None) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream()
        self.pending: Deque[Bucket] = deque()
        self.tick = 0

    def launch(self):
        bucket = self.buckets[self.tick % 2]
        self.tick += 1
        main = torch.cuda.current_stream()
        main.wait_event(bucket.fetched)
        bucket.graph.replay()
        self.ids.copy_(bucket.token)
        self._fetch(bucket, main)
        self.pending.append(bucket)

    def _fetch(self, bucket: Bucket, main: torch.cuda.Stream):
        self.copy_stream.wait_stream(main)
        with torch.cuda.stream(self.copy_stream):
            bucket.host_token.copy_(bucket.token, non_blocking=True)
            bucket.host_score.copy_(bucket.score, non_blocking=True)
            bucket.fetched.record()

    def collect(self) -> Tuple[List[int], List[float]]:
        bucket = self.pending.popleft()
        bucket.fetched.synchronize()
        return bucket.host_token.tolist(), bucket.host_score.tolist()


class LM(nn.Module):
    def __init__(self, vocab: int = 32768, width: int = 1024):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.ff = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width))

    def forward(self, ids):
        h = self.embed(ids)
        return (h + self.ff(h)) @ self.embed.weight.t()


@torch.inference_mode()
def main():
    decoder = PingPong(LM().cuda(), batch=48)
    history: List[List[int]] = []
    best = float("-inf")
    decoder.launch()
    for _ in range(63):
        decoder.launch()
        tokens, scores = decoder.collect()
        history.append(tokens)
        best = max(best, max(scores))
    tokens, _ = decoder.collect()
    history.append(tokens)
    print(len(history), best, history[-1][:6])


if __name__ == "__main__":
    main()
