import contextlib

import torch


class HostBatches:
    def __init__(self, n, shape, pin):
        self.items = [torch.randint(0, 255, shape, dtype=torch.uint8) for _ in range(n)]
        if pin:
            self.items = [t.pin_memory() for t in self.items]

    def __iter__(self):
        return iter(self.items)


class OnDevice:
    def __init__(self, inner, device, stream=None):
        self.inner = inner
        self.device = device
        self.stream = stream

    def scope(self):
        if self.stream is not None:
            return torch.cuda.stream(self.stream)
        return contextlib.nullcontext()

    def __iter__(self):
        for item in self.inner:
            with self.scope():
                moved = item.to(self.device, non_blocking=self.stream is not None)
            yield moved


class Normalized:
    """Scales what the inner loader moved, in the same scope."""

    def __init__(self, inner, mean, std):
        self.inner = inner
        self.mean = mean
        self.std = std

    def __iter__(self):
        for item in self.inner:
            with self.inner.scope():
                out = item.float().div_(255.0).sub_(self.mean).div_(self.std)
            yield out


class Joined:
    def __init__(self, inner, stream=None):
        self.inner = inner
        self.stream = stream

    def __iter__(self):
        for item in self.inner:
            if self.stream is not None:
                now = torch.cuda.current_stream()
                now.wait_stream(self.stream)
                item.record_stream(now)
            yield item


def build(device, overlap):
    stream = torch.cuda.Stream() if overlap else None
    loader = HostBatches(20, (16, 3, 64, 64), pin=overlap)
    loader = OnDevice(loader, device, stream)
    loader = Normalized(loader, 0.45, 0.22)
    loader = Joined(loader, stream)
    return loader


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    conv = torch.nn.Conv2d(3, 8, 3).to(device)
    for overlap in {False, device == "cuda"}:
        loader = build(device, overlap)
        with torch.no_grad():
            scores = [conv(x).mean() for x in loader]
        print(overlap, torch.stack(scores).mean().item())


if __name__ == "__main__":
    main()
