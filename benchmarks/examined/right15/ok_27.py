"""Device map over an iterable with a bounded number of items in flight."""
from collections import deque

import torch


def _to_device(tree, device):
    if isinstance(tree, torch.Tensor):
        return tree.to(device, non_blocking=True)
    if isinstance(tree, dict):
        return {k: _to_device(v, device) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_to_device(v, device) for v in tree)
    return tree


def _leaves(tree):
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, dict):
        for v in tree.values():
            yield from _leaves(v)
    elif isinstance(tree, (list, tuple)):
        for v in tree:
            yield from _leaves(v)


def overlapped_map(fn, items, device, lanes=3):
    """Yields ``fn(item)`` in order; each item is processed on one of several streams."""
    streams = [torch.cuda.Stream(device) for _ in range(lanes)]
    flying = deque()

    def land():
        result, done = flying.popleft()
        current = torch.cuda.current_stream(device)
        current.wait_event(done)
        for leaf in _leaves(result):
            if leaf.is_cuda:
                leaf.record_stream(current)
        return result

    for turn, item in enumerate(items):
        if len(flying) == lanes:
            yield land()
        stream = streams[turn % lanes]
        stream.wait_stream(torch.cuda.current_stream(device))
        for leaf in _leaves(item):
            if leaf.is_cuda:
                leaf.record_stream(stream)
        with torch.cuda.stream(stream):
            result = fn(_to_device(item, device))
            flying.append((result, stream.record_event()))
        del result
    while flying:
        yield land()


def features(item):
    wave = item["wave"]
    spectrum = torch.fft.rfft(wave, dim=-1).abs()
    return {"power": spectrum.square().mean(-1), "peak": spectrum.argmax(-1),
            "name": item["name"]}


def recordings(count):
    for i in range(count):
        yield {"wave": torch.randn(8, 1 << 14).pin_memory(), "name": f"take-{i}"}


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    total = torch.zeros(8, device=device)
    for out in overlapped_map(features, recordings(20), device):
        total += out["power"]
    print(total.tolist())


if __name__ == "__main__":
    main()
