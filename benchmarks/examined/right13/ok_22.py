"""Scoped overlap: a context manager that runs its body on a spare stream."""
import contextlib

import torch


class Exports(dict):
    """Tensors that leave an aside() block."""


class SparePool:
    def __init__(self, count=2, device="cuda"):
        self.device = torch.device(device)
        self.spare = [torch.cuda.Stream(self.device) for _ in range(count)]

    @contextlib.contextmanager
    def aside(self):
        outer = torch.cuda.current_stream(self.device)
        stream = self.spare.pop() if self.spare else torch.cuda.Stream(self.device)
        stream.wait_stream(outer)
        exports = Exports()
        try:
            with torch.cuda.stream(stream):
                yield exports
        finally:
            outer.wait_stream(stream)
            for t in exports.values():
                t.record_stream(outer)
            self.spare.append(stream)


def spectrum(x):
    return torch.fft.rfft(x, dim=-1).abs()


def features(pool, wave):
    centred = wave - wave.mean(dim=-1, keepdim=True)
    with pool.aside() as out:
        spec = spectrum(centred)
        out["spec"] = spec / spec.amax(dim=-1, keepdim=True).clamp_min(1e-6)
        del spec
        with pool.aside() as inner:
            inner["energy"] = centred.square().mean(dim=-1, keepdim=True)
        out["db"] = inner["energy"].clamp_min(1e-10).log10() * 10
        del centred
    return torch.cat((out["spec"], out["db"]), dim=-1)


def batch_features(waves, device="cuda"):
    pool = SparePool(device=device)
    rows = []
    for wave in waves:
        try:
            rows.append(features(pool, wave.to(device)))
        except RuntimeError as exc:
            print("skipping one wave:", exc)
    return torch.stack(rows).cpu() if rows else None


if __name__ == "__main__":
    print(batch_features([torch.randn(4, 16000) for _ in range(8)]).shape)
