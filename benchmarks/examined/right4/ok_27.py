from typing import Iterable, Iterator, NamedTuple

import torch


class Token(NamedTuple):
    tensor: torch.Tensor
    event: torch.cuda.Event

    def on(self, stream):
        stream.wait_event(self.event)
        self.tensor.record_stream(stream)
        return self.tensor


class Stage:
    def __init__(self, fn):
        self.fn = fn
        self.stream = torch.cuda.Stream()

    def _emit(self, tensor):
        return Token(tensor, self.stream.record_event())

    def __call__(self, upstream: Iterable[Token]) -> Iterator[Token]:
        for token in upstream:
            with torch.cuda.stream(self.stream):
                out = self._emit(self.fn(token.on(self.stream)))
            yield out


class Source(Stage):
    def __call__(self, upstream):
        for host in upstream:
            with torch.cuda.stream(self.stream):
                out = self._emit(host.pin_memory().to("cuda", non_blocking=True))
            yield out


def ahead(iterable, depth):
    buffer = []
    for item in iterable:
        buffer.append(item)
        if len(buffer) > depth:
            yield buffer.pop(0)
    yield from buffer


def to_float(x):
    return x.float().div_(255)


def flip(x):
    return torch.where(torch.rand(x.shape[0], 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)


def normalize(x):
    return (x - x.mean((2, 3), keepdim=True)) / (x.std((2, 3), keepdim=True) + 1e-5)


def pipeline(images):
    tokens = Source(None)(images)
    for fn in (to_float, flip, normalize):
        tokens = Stage(fn)(tokens)
    for token in ahead(tokens, 2):
        yield token.on(torch.cuda.current_stream())


def main():
    images = (torch.randint(0, 256, (16, 3, 224, 224), dtype=torch.uint8) for _ in range(32))
    net = torch.nn.Conv2d(3, 8, 7, stride=4).cuda()
    acc = torch.zeros((), device="cuda")
    with torch.no_grad():
        for x in pipeline(images):
            acc += net(x).mean()
    print(acc.item())
