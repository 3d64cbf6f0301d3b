"""Mesh features by Warp inside a multi-stream PyTorch loader."""
import torch
import warp as wp


@wp.kernel
def smooth(signal: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    n = signal.shape[0]
    acc = float(0.0)
    for k in range(-8, 9):
        acc = acc + signal[wp.clamp(i + k, 0, n - 1)]
    out[i] = acc / 17.0


@wp.kernel
def difference(signal: wp.array(dtype=float), base: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = signal[i] - base[i]


class FeatureStage:
    """High-pass features; runs on the loader's stream."""

    def __init__(self, device):
        self.device = device

    def __call__(self, signal, stream):
        out = torch.empty_like(signal)
        source = wp.from_torch(signal)
        with wp.ScopedStream(wp.stream_from_torch(stream), sync_enter=False):
            base = wp.empty(signal.numel(), dtype=float, device=self.device)
            wp.launch(smooth, dim=signal.numel(), inputs=[source, base], device=self.device)
            wp.launch(difference, dim=signal.numel(),
                      inputs=[source, base, wp.from_torch(out)], device=self.device)
        return out


class MultiStreamLoader:
    def __init__(self, streams=3, length=1 << 22):
        self.length = length
        self.streams = [torch.cuda.Stream() for _ in range(streams)]
        self.stage = FeatureStage(wp.get_device("cuda:0"))

    def epoch(self, batches):
        group = []
        for number in range(batches):
            stream = self.streams[number % len(self.streams)]
            with torch.cuda.stream(stream):
                signal = torch.randn(self.length, device="cuda")
                group.append((self.stage(signal, stream), signal))
            if len(group) == len(self.streams):
                for stream in self.streams:
                    stream.synchronize()
                yield from (features for features, _ in group)
                group = []


if __name__ == "__main__":
    wp.init()
    norms = [features.norm().item() for features in MultiStreamLoader().epoch(48)]
    print(sum(norms) / len(norms))
