"""Vocoder decode with reusable pinned staging: launch now, resolve to bytes later."""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class PinnedStage:
    buffer: torch.Tensor
    done: torch.cuda.Event


class StagePool:
    def __init__(self, count: int, samples: int) -> None:
        self.samples = samples
        self.free: deque[PinnedStage] = deque()
        for _ in range(count):
            self.free.append(
                PinnedStage(torch.empty(samples, dtype=torch.int16, pin_memory=True), torch.cuda.Event())
            )

    def take(self) -> PinnedStage | None:
        return self.free.popleft() if self.free else None

    def give(self, stage: PinnedStage) -> None:
        self.free.append(stage)


@dataclass
class PendingAudio:
    request_id: int
    stage: PinnedStage
    samples: int
    bad_rows: torch.Tensor


class StreamingVocoder:
    def __init__(self, decoder: nn.Module, codebook: torch.Tensor, max_samples: int, stages: int) -> None:
        self.decoder = decoder
        self.codebook = codebook
        self.pool = StagePool(stages, max_samples)
        self.stream = torch.cuda.Stream()
        self.pending: deque[PendingAudio] = deque()
        self.stream.wait_stream(torch.cuda.current_stream())

    def submit(self, request_id: int, codes: torch.Tensor) -> bool:
        """Queues one chunk; returns False when every staging buffer is in use."""
        stage = self.pool.take()
        if stage is None:
            return False
        self.stream.wait_stream(torch.cuda.current_stream())
        codes.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            limit = self.codebook.shape[0] - 1
            screened = codes.clamp(0, limit)
            bad = (screened != codes).any().to(torch.int16).to("cpu", non_blocking=True)
            frames = self.codebook[screened].sum(dim=1)
            wave = self.decoder(frames.T.unsqueeze(0)).flatten()
            pcm = (wave * 32767.0).clamp(-32768, 32767).to(torch.int16)
            stage.buffer[: pcm.numel()].copy_(pcm, non_blocking=True)
            stage.done.record(self.stream)
        self.pending.append(PendingAudio(request_id, stage, pcm.numel(), bad))
        return True

    def resolve(self, block: bool) -> list[tuple[int, bytes]]:
        out = []
        while self.pending:
            head = self.pending[0]
            if not block and not head.stage.done.query():
                break
            head.stage.done.synchronize()
            self.pending.popleft()
            if int(head.bad_rows) == 0:
                pcm = np.array(head.stage.buffer[: head.samples].numpy(), copy=True)
                out.append((head.request_id, pcm.tobytes()))
            self.pool.give(head.stage)
        return out


@torch.inference_mode()
def synthesize(vocoder: StreamingVocoder, requests: int, chunks: int) -> dict[int, int]:
    produced: dict[int, int] = {}

    def account(items: list[tuple[int, bytes]]) -> None:
        for request_id, data in items:
            produced[request_id] = produced.get(request_id, 0) + len(data)

    for _ in range(chunks):
        for r in range(requests):
            codes = torch.randint(0, 2048, (25, 16), device="cuda")
            while not vocoder.submit(r, codes):
                account(vocoder.resolve(block=True))
        account(vocoder.resolve(block=False))
    account(vocoder.resolve(block=True))
    return produced


if __name__ == "__main__":
    net = nn.Sequential(
        nn.ConvTranspose1d(256, 64, 8, stride=4, padding=2), nn.ELU(),
        nn.ConvTranspose1d(64, 1, 16, stride=8, padding=4), nn.Tanh(),
    ).cuda().eval()
    voc = StreamingVocoder(net, torch.randn(2048, 256, device="cuda"), max_samples=4096, stages=4)
    print(synthesize(voc, requests=6, chunks=20))
