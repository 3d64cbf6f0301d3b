"""Sampler thread: results are copied by a worker that is given a readiness event."""
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable, List, Tuple

import torch


@dataclass
class SamplingConfig:
    vocab: int = 32000
    width: int = 1024
    batch: int = 64
    top_p: float = 0.9


class HostBatch:
    def __init__(self, tokens: List[int], scores: List[float]):
        self.tokens, self.scores = tokens, scores


class CopyWorker:
    def __init__(self, device: torch.device):
        self.device = device
        self.pool = ThreadPoolExecutor(1, initializer=self._enter)

    def _enter(self) -> None:
        torch.cuda.set_device(self.device)

    def _run(self, ready: torch.cuda.Event, fn: Callable[[], HostBatch]) -> HostBatch:
        ready.synchronize()
        return fn()

    def submit(self, fn: Callable[[], HostBatch]) -> Future:
        ready = torch.cuda.Event()
        ready.record()
        return self.pool.submit(self._run, ready, fn)

    def stop(self) -> None:
        self.pool.shutdown(wait=True)


class NucleusSampler:
    def __init__(self, cfg: SamplingConfig, worker: CopyWorker):
        self.cfg, self.worker = cfg, worker

    def draw(self, logits: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        probs, idx = logits.softmax(-1).sort(-1, descending=True)
        keep = probs.cumsum(-1) - probs < self.cfg.top_p
        probs = probs * keep
        pick = torch.multinomial(probs, 1)
        return idx.gather(1, pick).squeeze(1), probs.gather(1, pick).squeeze(1)

    def __call__(self, logits: torch.Tensor) -> Tuple[torch.Tensor, Future]:
        tok, score = self.draw(logits)

        def fetch() -> HostBatch:
            return HostBatch(tok.cpu().tolist(), score.cpu().tolist())

        return tok, self.worker.submit(fetch)


class CellLM:
    def __init__(self, cfg: SamplingConfig, device: torch.device):
        self.emb = torch.randn(cfg.vocab, cfg.width, device=device) * 0.05
        self.rec = torch.randn(cfg.width, cfg.width, device=device) / cfg.width ** 0.5
        self.h = torch.zeros(cfg.batch, cfg.width, device=device)

    def __call__(self, tok: torch.Tensor) -> torch.Tensor:
        self.h = torch.tanh(self.h @ self.rec + self.emb[tok])
        return self.h @ self.emb.t()


class OverlapEngine:
    def __init__(self, cfg: SamplingConfig):
        self.cfg = cfg
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.stream = torch.cuda.Stream(self.device)
        self.lm = CellLM(cfg, self.device)
        self.worker = CopyWorker(self.device)
        self.sampler = NucleusSampler(cfg, self.worker)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.log: List[List[int]] = []

    @torch.inference_mode()
    def generate(self, steps: int) -> List[List[int]]:
        futures: List[Future] = []
        with torch.cuda.stream(self.stream):
            tok = torch.zeros(self.cfg.batch, dtype=torch.int64, device=self.device)
            for _ in range(steps):
                tok, fut = self.sampler(self.lm(tok))
                futures.append(fut)
                if len(futures) > 2:
                    self.log.append(futures.pop(0).result().tokens)
        for f in futures:
            self.log.append(f.result().tokens)
        self.worker.stop()
        return self.log


def main():
    eng = OverlapEngine(SamplingConfig())
    out = eng.generate(24)
    print(len(out), out[-1][:6])


if __name__ == "__main__":
    main()
