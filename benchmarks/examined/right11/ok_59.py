from __future__ import annotations

import weakref
from collections import deque
from pathlib import Path

import numpy as np
import torch


class Feature:
    """A device array that becomes valid once its load has finished."""

    def __init__(self, data: torch.Tensor, event: torch.cuda.Event) -> None:
        self._data = data
        self._event = event

    @property
    def tensor(self) -> torch.Tensor:
        stream = torch.cuda.current_stream()
        stream.wait_event(self._event)
        self._data.record_stream(stream)
        return self._data


class FeatureCache:
    def __init__(self, root: Path, shape: tuple[int, int], keep: int = 8, lanes: int = 2) -> None:
        self.root, self.shape = root, shape
        self.stream = torch.cuda.Stream()
        self._live: weakref.WeakValueDictionary[str, Feature] = weakref.WeakValueDictionary()
        self._recent: deque[Feature] = deque(maxlen=keep)
        self._staging = deque(
            (torch.empty(shape, pin_memory=True), torch.cuda.Event()) for _ in range(lanes)
        )

    def _load(self, name: str) -> Feature:
        host, used = self._staging[0]
        self._staging.rotate(-1)
        used.synchronize()
        host.numpy()[...] = np.load(self.root / f"{name}.npy", mmap_mode="r")
        with torch.cuda.stream(self.stream):
            raw = host.to("cuda", non_blocking=True)
            used.record(self.stream)
            data = torch.nn.functional.normalize(raw, dim=1)
            event = self.stream.record_event()
        return Feature(data, event)

    def prefetch(self, *names: str) -> None:
        for name in names:
            self.get(name)

    def get(self, name: str) -> Feature:
        feature = self._live.get(name)
        if feature is None:
            feature = self._load(name)
            self._live[name] = feature
        self._recent.append(feature)
        return feature


def similarity(cache: FeatureCache, pairs: list[tuple[str, str]]) -> list[float]:
    scores = []
    for i, (a, b) in enumerate(pairs):
        if i + 1 < len(pairs):
            cache.prefetch(*pairs[i + 1])
        scores.append((cache.get(a).tensor * cache.get(b).tensor).sum(1).amax())
    return torch.stack(scores).tolist()


def main() -> None:
    root = Path("/tmp/features")
    root.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    names = [f"f{i:02d}" for i in range(32)]
    for name in names:
        np.save(root / f"{name}.npy", rng.standard_normal((1024, 128)).astype(np.float32))
    cache = FeatureCache(root, (1024, 128))
    pairs = [tuple(rng.choice(names, 2, replace=False)) for _ in range(100)]
    print(max(similarity(cache, pairs)))


if __name__ == "__main__":
    main()
