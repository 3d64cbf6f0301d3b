"""Signal stage: torch filters, CuPy spectral features, torch classifier."""
import cupy as cp
import torch
from torch import nn
from torch.utils import dlpack


def as_cupy(tensor):
    return cp.fromDlpack(dlpack.to_dlpack(tensor))


def as_torch(array):
    return dlpack.from_dlpack(array.toDlpack())


class cupy_on_torch_stream:
    def __enter__(self):
        handle = torch.cuda.current_stream().cuda_stream
        self.stream = cp.cuda.ExternalStream(handle)
        self.stream.__enter__()
        return self.stream

    def __exit__(self, *exc):
        return self.stream.__exit__(*exc)


class Spectrum(nn.Module):
    def __init__(self, channels=16, taps=63, bins=256, classes=8):
        super().__init__()
        self.filter = nn.Conv1d(1, channels, taps, padding=taps // 2)
        self.head = nn.Linear(channels * bins, classes)
        self.bins = bins

    def features(self, x):
        filtered = self.filter(x[:, None]).contiguous()
        with cupy_on_torch_stream():
            view = as_cupy(filtered)
            power = cp.abs(cp.fft.rfft(view, axis=-1))[..., : self.bins]
            feats = cp.ascontiguousarray(cp.log1p(power), dtype=cp.float32)
        return as_torch(feats)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Worker:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.model = Spectrum().cuda().eval()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def classify(self, signal):
        with torch.cuda.stream(self.stream):
            x = signal.to("cuda", non_blocking=True)
            logits = self.model(x)
            label = logits.argmax(1)
            self.stream.synchronize()
        return label.tolist()


def main(batches=5, batch=64, length=4096):
    worker = Worker()
    t = torch.arange(length) / length
    counts = torch.zeros(8, dtype=torch.long)
    for k in range(batches):
        phase = torch.rand(batch, 1) * 6.28
        wave = torch.sin(t * 6.28 * (20 + 10 * k) + phase).pin_memory()
        for label in worker.classify(wave):
            counts[label] += 1
    print("labels", counts.tolist())


if __name__ == "__main__":
    main()
