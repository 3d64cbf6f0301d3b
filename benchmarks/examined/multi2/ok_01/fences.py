from collections import defaultdict

import torch


class FenceBook:
    """Named events, shared by those who never see each other."""

    def __init__(self):
        self._events = {}
        self._marks = defaultdict(int)

    def mark(self, name, stream=None):
        ev = self._events.get(name)
        if ev is None:
            ev = self._events[name] = torch.cuda.Event()
        ev.record(stream if stream is not None else torch.cuda.current_stream())
        self._marks[name] += 1

    def hold(self, name, stream=None):
        ev = self._events.get(name)
        if ev is None:
            return False
        (stream if stream is not None else torch.cuda.current_stream()).wait_event(ev)
        return True

    def stats(self):
        return dict(self._marks)

    def names(self):
        return sorted(self._events)

    def idle(self, name):
        ev = self._events.get(name)
        return ev is None or ev.query()
