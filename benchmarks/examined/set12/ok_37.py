import cupy as cp
import numpy as np
import torch


class SignalFrontend:
    """Spectrogram in CuPy, network in torch, each on its own stream."""

    def __init__(self, n_fft=512, hop=128):
        self.n_fft = n_fft
        self.hop = hop
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.window = cp.asarray(np.hanning(n_fft), dtype=cp.float32)

    def spectrogram(self, signal):
        with self.stream:
            x = cp.asarray(signal, dtype=cp.float32)
            frames = 1 + (x.shape[-1] - self.n_fft) // self.hop
            index = cp.arange(self.n_fft)[None] + self.hop * cp.arange(frames)[:, None]
            spec = cp.abs(cp.fft.rfft(x[..., index] * self.window, axis=-1)) ** 2
            spec = cp.log1p(spec).astype(cp.float32)
            return cp.ascontiguousarray(spec)


class StreamingClassifier:
    def __init__(self, model, device="cuda"):
        self.model = model.to(device).eval()
        self.frontend = SignalFrontend()
        self.stream = torch.cuda.Stream(device)
        self.keep = []
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def submit(self, signal):
        with self.frontend.stream:
            spec = self.frontend.spectrogram(signal)
            with torch.cuda.stream(self.stream):
                features = torch.from_dlpack(spec)
                logits = self.model(features.unsqueeze(1))
        self.keep.append(spec)
        return logits

    def drain(self, pending):
        with torch.cuda.stream(self.stream):
            stacked = torch.cat(pending).softmax(-1)
        self.stream.synchronize()
        self.keep.clear()
        return stacked.cpu().numpy()


def classify(model, signals, flush_every=16):
    classifier = StreamingClassifier(model)
    pending, results = [], []
    for signal in signals:
        pending.append(classifier.submit(signal))
        if len(pending) == flush_every:
            results.append(classifier.drain(pending))
            pending = []
    if pending:
        results.append(classifier.drain(pending))
    return np.concatenate(results)
