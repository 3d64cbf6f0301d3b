from collections import deque
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Parcel:
    tag: int
    body: Any
    ready: torch.cuda.Event
    parts: tuple = ()


class Belt:
    def __init__(self):
        self._parcels = deque()

    def add(self, parcel):
        self._parcels.append(parcel)

    def remove(self):
        parcel = self._parcels.popleft()
        parcel.ready.wait()
        parcel.body.record_stream(torch.cuda.current_stream())
        return parcel

    def drain(self, keep=0):
        while len(self._parcels) > keep:
            yield self.remove()


class Station:
    def __init__(self, name, fn, source, target):
        self.fn = fn
        self.stream = torch.cuda.Stream()
        self.source = source
        self.target = target

    def work(self, keep=0):
        with torch.cuda.stream(self.stream):
            for parcel in self.source.drain(keep):
                body = self.fn(parcel.body)
                self.target.add(Parcel(parcel.tag, body, self.stream.record_event(), (parcel.body,)))


class Line:
    def __init__(self, *fns):
        self.belts = [Belt() for _ in range(len(fns) + 1)]
        self.stations = [Station(f.__name__, f, a, b) for f, a, b in zip(fns, self.belts, self.belts[1:])]

    def feed(self, tag, x):
        self.belts[0].add(Parcel(tag, x, torch.cuda.current_stream().record_event()))
        for keep, station in enumerate(self.stations):
            station.work(keep)

    def flush(self):
        for station in self.stations:
            station.work()
        return {p.tag: p.body.sum() for p in self.belts[-1].drain()}


def spectrum(x):
    return torch.fft.fft(x).abs()


def compress(x):
    return torch.log1p(x)


def decimate(x):
    return x[::4].contiguous()


def main():
    line = Line(spectrum, compress, decimate)
    for tag in range(12):
        line.feed(tag, torch.randn(1 << 14, device="cuda"))
    sums = line.flush()
    print({tag: v.item() for tag, v in sums.items()})


if __name__ == "__main__":
    main()
