import functools

import torch


@functools.lru_cache(maxsize=None)
def side(device=0):
    return torch.cuda.Stream(device=device)


def enter(device=0):
    stream = side(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def leave(device=0):
    torch.cuda.current_stream(device).wait_stream(side(device))


def idle(device=0):
    return side(device).query()


def finish(device=0):
    side(device).synchronize()
