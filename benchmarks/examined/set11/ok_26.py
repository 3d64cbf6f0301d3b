"""Spectrogram features of many recordings, one stream for each worker slot."""
from typing import Iterable, List

import cupy as cp
import numpy as np


class StreamSlot:
    """The memory pool keeps an arena for each stream, so what a slot drops is only used again by the same slot."""

    def __init__(self, window: int, num_mels: int, sample_rate: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.window = window
        with self.stream:
            self.taper = cp.hanning(window).astype(cp.float32)
            angle = 2 * np.pi / window * cp.outer(cp.arange(window), cp.arange(window // 2 + 1))
            self.cos, self.sin = cp.cos(angle).astype(cp.float32), cp.sin(angle).astype(cp.float32)
            self.mels = self._mel_bank(num_mels, sample_rate)

    def _mel_bank(self, num_mels: int, sample_rate: int) -> cp.ndarray:
        bins = cp.linspace(0, sample_rate / 2, self.window // 2 + 1)
        top = 2595.0 * np.log10(1.0 + sample_rate / 1400.0)
        edges = 700.0 * (10.0 ** (cp.linspace(0, top, num_mels + 2) / 2595.0) - 1.0)
        up = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        down = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
        return cp.maximum(0, cp.minimum(up, down)).astype(cp.float32)

    def submit(self, samples: np.ndarray, hop: int) -> cp.ndarray:
        with self.stream:
            wave = cp.asarray(samples, dtype=cp.float32)
            count = 1 + (wave.size - self.window) // hop
            frames = cp.lib.stride_tricks.as_strided(wave, (count, self.window), (hop * 4, 4))
            tapered = frames * self.taper
            power = (tapered @ self.cos) ** 2 + (tapered @ self.sin) ** 2
            del tapered
            mel = power @ self.mels.T
            del power, frames, wave
            return cp.log(mel + 1e-6)


class FeatureExtractor:
    def __init__(self, num_slots: int = 4, window: int = 1024, hop: int = 256, num_mels: int = 80, rate: int = 16000):
        self.hop = hop
        self.slots = [StreamSlot(window, num_mels, rate) for _ in range(num_slots)]

    def __call__(self, recordings: Iterable[np.ndarray]) -> List[np.ndarray]:
        pending = []
        for index, samples in enumerate(recordings):
            slot = self.slots[index % len(self.slots)]
            pending.append((slot, slot.submit(samples, self.hop)))
        features = []
        for slot, mel in pending:
            features.append(mel.get(stream=slot.stream))
        for slot in self.slots:
            slot.stream.synchronize()
        return features
