"""CuPy preprocessing and a PyTorch classifier joined through DLPack."""
import cupy as cp
import numpy as np
import torch
from torch import nn


class SpectrumClassifier:
    def __init__(self, model, window, hop, device=0):
        self.model = model.eval().cuda(device)
        self.window = window
        self.hop = hop
        self.device = device
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)
            with self.stream:
                self.taper = cp.hanning(window).astype(cp.float32)
        self.as_torch = torch.cuda.ExternalStream(self.stream.ptr, device=device)

    def _spectra(self, wave):
        x = cp.asarray(wave, dtype=cp.float32)
        frames = 1 + (x.size - self.window) // self.hop
        index = cp.arange(self.window)[None, :] + self.hop * cp.arange(frames)[:, None]
        return cp.log1p(cp.abs(cp.fft.rfft(x[index] * self.taper, axis=1))).astype(cp.float32)

    @torch.no_grad()
    def __call__(self, wave):
        if len(wave) < self.window:
            return np.empty((0,), np.int64), np.empty((0,), np.float32)
        with cp.cuda.Device(self.device), torch.cuda.device(self.device):
            with self.stream:
                spectra = self._spectra(wave)
                features = torch.from_dlpack(spectra)
            try:
                probs = self.model(features).softmax(dim=-1)
                with self.stream:
                    view = cp.from_dlpack(probs)
                    label = view.argmax(axis=1)
                    score = cp.take_along_axis(view, label[:, None], axis=1)[:, 0]
                    return cp.asnumpy(label), cp.asnumpy(score)
            finally:
                self.as_torch.wait_stream(torch.cuda.current_stream(self.device))


def majority(classifier, waves):
    votes = []
    for wave in waves:
        labels, scores = classifier(wave)
        if labels.size == 0:
            votes.append(None)
            continue
        weight = np.bincount(labels, weights=scores)
        votes.append(int(weight.argmax()))
    return votes


def main():
    window = 512
    net = nn.Sequential(
        nn.LayerNorm(window // 2 + 1),
        nn.Linear(window // 2 + 1, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    clf = SpectrumClassifier(net, window, hop=128)
    rng = np.random.default_rng(0)
    print(majority(clf, [rng.standard_normal(n) for n in (16000, 300, 8000)]))


if __name__ == "__main__":
    main()
