from typing import Iterable, List

import cupy as cp
import numpy as np
import torch


class SpectrogramSource:
    """Computes log power spectra with cuFFT through CuPy and hands them to torch."""

    def __init__(self, n_fft: int, hop: int):
        self.n_fft = n_fft
        self.hop = hop
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.window = cp.hanning(n_fft).astype(cp.float32)

    def _frames(self, wave: cp.ndarray) -> cp.ndarray:
        n = 1 + (wave.size - self.n_fft) // self.hop
        s = wave.strides[0]
        return cp.lib.stride_tricks.as_strided(wave, (n, self.n_fft), (self.hop * s, s))

    def produce(self, wave: np.ndarray) -> torch.Tensor:
        torch_stream = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        self.stream.wait_event(torch_stream.record())
        with self.stream:
            x = cp.asarray(wave, dtype=cp.float32)
            spec = cp.fft.rfft(self._frames(x) * self.window, axis=1)
            power = cp.log1p(cp.abs(spec) ** 2).astype(cp.float32)
            return torch.from_dlpack(power)


class KeywordSpotter:
    def __init__(self, net: torch.nn.Module, source: SpectrogramSource, device: torch.device):
        self.net = net.to(device).eval()
        self.source = source
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.inference_mode()
    def score(self, waves: Iterable[np.ndarray]) -> List[float]:
        scores = []
        with torch.cuda.stream(self.stream):
            for wave in waves:
                spec = self.source.produce(wave)
                spec = (spec - spec.mean()) / spec.std().clamp_min(1e-5)
                scores.append(self.net(spec[None, None]).sigmoid().amax())
            return torch.stack(scores).cpu().tolist()
