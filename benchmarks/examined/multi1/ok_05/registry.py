import threading

import torch

_lock = threading.Lock()
_named = {}


def register(name, priority=0):
    with _lock:
        if name in _named:
            raise KeyError(name)
        _named[name] = torch.cuda.Stream(priority=priority)
        return _named[name]


def get(name):
    with _lock:
        s = _named.get(name)
        if s is None:
            s = _named[name] = torch.cuda.Stream()
        return s


def names():
    with _lock:
        return sorted(_named)


register("d2h", priority=-1)
