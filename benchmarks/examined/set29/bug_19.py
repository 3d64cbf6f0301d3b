"""Streaming speech: talker -> chunk receiver -> vocoder decode workers."""
from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class CodeChunk:
    request_id: int
    codes: torch.Tensor
    written: torch.cuda.Event
    last: bool = False


class Talker(threading.Thread):
    """Samples codec frames on its own stream and ships them in chunks."""

    def __init__(self, requests: int, frames: int, chunk: int, out: queue.Queue) -> None:
        super().__init__()
        self.requests, self.frames, self.chunk, self.out = requests, frames, chunk, out
        self.stream = torch.cuda.Stream()
        self.embed = torch.randn(2048, 1024, device="cuda")
        self.weight = torch.randn(1024, 1024, device="cuda") * 1024 ** -0.5

    @torch.inference_mode()
    def run(self) -> None:
        with torch.cuda.stream(self.stream):
            hidden = torch.randn(self.requests, 1024, device="cuda")
            for start in range(0, self.frames, self.chunk):
                rows = []
                for _ in range(self.chunk):
                    for _ in range(8):
                        hidden = torch.tanh(hidden @ self.weight)
                    code = (hidden @ self.embed.T).topk(16, dim=-1).indices
                    hidden = hidden + self.embed[code[:, 0]]
                    rows.append(code)
                codes = torch.stack(rows, dim=1)
                written = self.stream.record_event()
                for r in range(self.requests):
                    self.out.put(CodeChunk(r, codes[r], written, start + self.chunk >= self.frames))
        self.out.put(None)


class ChunkReceiver(threading.Thread):
    """Takes chunks off the transport and hands them to the decode workers."""

    def __init__(self, inbox: queue.Queue, workers: list["DecodeWorker"]) -> None:
        super().__init__()
        self.inbox = inbox
        self.workers = workers

    def run(self) -> None:
        while (chunk := self.inbox.get()) is not None:
            torch.cuda.current_stream().wait_event(chunk.written)
            self.workers[chunk.request_id % len(self.workers)].jobs.put(chunk)
        for worker in self.workers:
            worker.jobs.put(None)


class DecodeWorker(threading.Thread):
    def __init__(self, decoder: nn.Module, codebook: torch.Tensor, audio: dict[int, list]) -> None:
        super().__init__()
        self.decoder = decoder
        self.codebook = codebook
        self.audio = audio
        self.jobs: queue.Queue = queue.Queue()
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()

    def _decode(self, codes: torch.Tensor) -> np.ndarray:
        with torch.cuda.stream(self.stream):
            codes.record_stream(self.stream)
            ids = codes.clamp(0, self.codebook.shape[0] - 1)
            frames = self.codebook[ids].sum(dim=1)
            wave = self.decoder(frames.T.unsqueeze(0)).flatten()
            host = wave.to("cpu", non_blocking=True)
            self.finished.record(self.stream)
        self.finished.synchronize()
        return host.numpy()

    @torch.inference_mode()
    def run(self) -> None:
        while (chunk := self.jobs.get()) is not None:
            self.audio.setdefault(chunk.request_id, []).append(self._decode(chunk.codes))


def main() -> None:
    decoder = nn.Sequential(
        nn.ConvTranspose1d(256, 64, 8, stride=4, padding=2), nn.ELU(),
        nn.ConvTranspose1d(64, 1, 16, stride=8, padding=4), nn.Tanh(),
    ).cuda().eval()
    codebook = torch.randn(2048, 256, device="cuda")
    audio: dict[int, list] = {}
    workers = [DecodeWorker(decoder, codebook, audio) for _ in range(2)]
    transport: queue.Queue = queue.Queue()
    talker = Talker(requests=8, frames=200, chunk=10, out=transport)
    receiver = ChunkReceiver(transport, workers)
    torch.cuda.synchronize()
    threads = [talker, receiver, *workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print({r: np.concatenate(parts).shape for r, parts in sorted(audio.items())})


if __name__ == "__main__":
    main()
