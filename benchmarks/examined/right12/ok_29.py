import functools

import torch
from torch.utils._pytree import tree_map


class Deferred:
    """Value being computed on another stream; `get` hands it to the calling stream."""

    def __init__(self, value, event):
        self._value = value
        self._event = event

    def get(self):
        def adopt(leaf):
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
                stream = torch.cuda.current_stream(leaf.device)
                stream.wait_event(self._event)
                leaf.record_stream(stream)
            return leaf
        return tree_map(adopt, self._value)

    @property
    def ready(self):
        return self._event.query()


def snapshot(stream, leaf):
    if isinstance(leaf, torch.Tensor) and leaf.is_cuda:
        leaf = leaf.detach().clone()
        leaf.record_stream(stream)
    return leaf


def deferred(stream_of):
    """Runs the wrapped method on the stream that `stream_of(self)` names."""

    def wrap(fn):
        @functools.wraps(fn)
        def call(self, *args, **kwargs):
            stream = stream_of(self)
            args, kwargs = tree_map(functools.partial(snapshot, stream), (args, kwargs))
            stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream), torch.no_grad():
                value = fn(self, *args, **kwargs)
                event = stream.record_event()
            return Deferred(value, event)
        return call
    return wrap


class Analyzer:
    def __init__(self, bins, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self._stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self._stream):
            self._window = torch.hann_window(bins, device=self.device)
            self._history = torch.zeros(bins // 2 + 1, device=self.device)

    @deferred(lambda self: self._stream)
    def spectrum(self, frames):
        power = torch.fft.rfft(frames * self._window).abs().square().mean(0)
        self._history.mul_(0.9).add_(power, alpha=0.1)
        return {"power": power, "peak": power.argmax()}

    @deferred(lambda self: self._stream)
    def history(self):
        return self._history.clone()

    @deferred(lambda self: self._stream)
    def reset(self):
        self._history.zero_()
        return None


def main():
    analyzer = Analyzer(1024)
    pending = []
    energy = torch.zeros((), device="cuda")
    for step in range(12):
        frames = torch.randn(64, 1024, device="cuda")
        pending.append(analyzer.spectrum(frames))
        energy += frames.square().mean()
        del frames
        if len(pending) == 4:
            energy += pending.pop(0).get()["power"].sum()
    analyzer.spectrum(torch.ones(4, 1024, device="cuda"))
    smooth = analyzer.history()
    analyzer.reset().get()
    print(energy.item(), smooth.get().mean().item(), analyzer.history().get().sum().item())
    print([int(item.get()["peak"]) for item in pending], pending[-1].ready)
    try:
        analyzer.spectrum(torch.ones(4, 7, device="cuda"))
    except RuntimeError as exc:
        print(type(exc).__name__)


if __name__ == "__main__":
    main()
