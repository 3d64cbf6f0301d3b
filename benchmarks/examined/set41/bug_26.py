"""Speech prompts for a language model: log-mel encoder with an embedding cache."""
import hashlib
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class AudioRequest:
    rid: int
    samples: torch.Tensor
    text_ids: torch.Tensor

    @property
    def key(self) -> str:
        return hashlib.sha1(self.samples.numpy().tobytes()).hexdigest()


class LogMel(nn.Module):
    def __init__(self, n_fft: int = 400, hop: int = 160, mels: int = 80):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", torch.rand(mels, n_fft // 2 + 1))

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        return (self.fb @ spec.abs().pow(2)).clamp_min(1e-10).log10()


class AudioEncoder(nn.Module):
    def __init__(self, width: int, layers: int = 6, mels: int = 80):
        super().__init__()
        self.mel = LogMel(mels=mels)
        self.conv = nn.Conv1d(mels, width, 3, stride=2, padding=1)
        enc = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(enc, layers)

    def forward(self, wav: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.mel(wav))
        return self.body(x.transpose(1, 2)).squeeze(0)


class EmbeddingCache:
    def __init__(self, capacity: int):
        self.capacity = capacity
        self.items: "OrderedDict[str, torch.Tensor]" = OrderedDict()
        self.stats = {"hit": 0, "miss": 0}

    def lookup(self, key: str) -> Optional[torch.Tensor]:
        hit = self.items.get(key)
        if hit is not None:
            self.items.move_to_end(key)
        self.stats["hit" if hit is not None else "miss"] += 1
        return hit

    def insert(self, key: str, value: torch.Tensor) -> None:
        self.items[key] = value
        assert len(self.items) <= self.capacity


class SpeechFrontend:
    def __init__(self, width: int, capacity: int, device: torch.device):
        self.device = device
        self.encoder = AudioEncoder(width).to(device).eval()
        self.cache = EmbeddingCache(capacity)
        self.aux = torch.cuda.Stream(device)
        self.fence = torch.cuda.Event()

    @contextmanager
    def _side(self) -> Iterator[None]:
        self.aux.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.aux):
            yield
            self.fence.record(self.aux)

    def _encode(self, req: AudioRequest) -> torch.Tensor:
        wav = req.samples.to(self.device, non_blocking=True).unsqueeze(0)
        return self.encoder(wav)

    def warm(self, queued: List[AudioRequest]) -> None:
        todo = [r for r in queued if r.key not in self.cache.items]
        if not todo:
            return
        with self._side():
            for r in todo:
                if r.key not in self.cache.items:
                    self.cache.insert(r.key, self._encode(r))

    def embeddings(self, batch: List[AudioRequest]) -> List[torch.Tensor]:
        out: Dict[int, torch.Tensor] = {}
        misses: List[Tuple[int, AudioRequest]] = []
        for i, r in enumerate(batch):
            emb = self.cache.lookup(r.key)
            if emb is not None:
                out[i] = emb
            else:
                misses.append((i, r))
        if misses:
            with self._side():
                for i, r in misses:
                    out[i] = self._encode(r)
                    self.cache.insert(r.key, out[i])
            torch.cuda.current_stream(self.device).wait_event(self.fence)
        return [out[i] for i in range(len(batch))]


class SpeechLM:
    def __init__(self, width: int = 512, vocab: int = 8000):
        self.device = torch.device("cuda")
        self.front = SpeechFrontend(width, 1024, self.device)
        self.tok = nn.Embedding(vocab, width).to(self.device)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.lm = nn.TransformerEncoder(layer, 4).to(self.device).eval()
        self.head = nn.Linear(width, vocab).to(self.device)

    def prefill(self, batch: List[AudioRequest]) -> List[int]:
        audio = self.front.embeddings(batch)
        firsts = []
        for r, emb in zip(batch, audio):
            ids = r.text_ids.to(self.device)
            x = torch.cat([emb, self.tok(ids)], 0).unsqueeze(0)
            firsts.append(self.head(self.lm(x)[:, -1]).argmax(-1))
        return torch.cat(firsts).tolist()

    @torch.inference_mode()
    def serve(self, requests: List[AudioRequest], batch_size: int) -> Dict[int, int]:
        answers: Dict[int, int] = {}
        for lo in range(0, len(requests), batch_size):
            batch = requests[lo:lo + batch_size]
            self.front.warm(batch)
            for r, t in zip(batch, self.prefill(batch)):
                answers[r.rid] = t
        return answers


def main():
    torch.manual_seed(0)
    reqs = [AudioRequest(i, torch.randn(16000 * 4).pin_memory(), torch.randint(8000, (12,))) for i in range(64)]
    lm = SpeechLM()
    print(lm.serve(reqs, 8), lm.front.cache.stats)


if __name__ == "__main__":
    main()
