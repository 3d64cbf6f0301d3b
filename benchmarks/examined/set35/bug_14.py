"""Batched speech recognition: acoustic model and GPU prefix decoder on two streams."""
from dataclasses import dataclass
from typing import List, Sequence

import torch
import torch.nn as nn
import torchaudio


@dataclass
class Hypothesis:
    tokens: List[int]
    score: float


class AcousticModel(nn.Module):
    def __init__(self, vocab: int, hidden: int = 512):
        super().__init__()
        self.features = torchaudio.transforms.MelSpectrogram(
            sample_rate=16000, n_fft=400, hop_length=160, n_mels=80)
        self.proj = nn.Linear(80, hidden)
        self.rnn = nn.GRU(hidden, hidden, num_layers=4, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        mel = torch.log(self.features(waves) + 1e-6).transpose(1, 2)
        hidden, _ = self.rnn(torch.relu(self.proj(mel)))
        return torch.log_softmax(self.out(hidden), dim=-1)


class BatchedDecoder:
    """Collapses frames into tokens on its own stream and copies them to pinned memory."""

    def __init__(self, max_batch: int, max_frames: int, blank: int, device: torch.device):
        self.blank = blank
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.tokens_host = torch.empty(max_batch, max_frames, dtype=torch.int64, pin_memory=True)
        self.scores_host = torch.empty(max_batch, pin_memory=True)

    def decode(self, log_probs: torch.Tensor, lengths: Sequence[int]) -> List[Hypothesis]:
        batch, frames, _ = log_probs.shape
        self.stream.wait_stream(torch.cuda.default_stream(self.device))
        with torch.cuda.stream(self.stream):
            best, ids = log_probs.max(dim=-1)
            repeat = torch.zeros_like(ids, dtype=torch.bool)
            repeat[:, 1:] = ids[:, 1:] == ids[:, :-1]
            ids = ids.masked_fill(repeat, self.blank)
            tokens = self.tokens_host[:batch, :frames]
            tokens.copy_(ids, non_blocking=True)
            self.scores_host[:batch].copy_(best.sum(dim=1), non_blocking=True)
        self.stream.synchronize()
        result = []
        for i, length in enumerate(lengths):
            row = [t for t in tokens[i, :length].tolist() if t != self.blank]
            result.append(Hypothesis(row, float(self.scores_host[i])))
        return result


class Recognizer:
    def __init__(self, model: AcousticModel, decoder: BatchedDecoder, device: torch.device):
        self.model = model
        self.decoder = decoder
        self.device = device
        self.am_stream = torch.cuda.Stream(device, priority=-1)

    @torch.inference_mode()
    def transcribe(self, waves: List[torch.Tensor]) -> List[Hypothesis]:
        lengths = [1 + w.numel() // 160 for w in waves]
        padded = nn.utils.rnn.pad_sequence(waves, batch_first=True).pin_memory()
        with torch.cuda.stream(self.am_stream):
            device_waves = padded.to(self.device, non_blocking=True)
            log_probs = self.model(device_waves)
            return self.decoder.decode(log_probs, lengths)


def main() -> None:
    device = torch.device("cuda", 0)
    model = AcousticModel(vocab=1024).to(device).eval()
    torch.cuda.synchronize()
    decoder = BatchedDecoder(max_batch=64, max_frames=4096, blank=0, device=device)
    recognizer = Recognizer(model, decoder, device)
    for _ in range(8):
        waves = [torch.randn(16000 * 10) for _ in range(32)]
        hyps = recognizer.transcribe(waves)
        print(sum(len(h.tokens) for h in hyps), hyps[0].score)


if __name__ == "__main__":
    main()
