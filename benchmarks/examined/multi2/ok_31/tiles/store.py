from collections import OrderedDict

import cupyx
import numpy as np

from .plane import Plane


class Store:
    """A few planes for many tiles; the oldest makes room for a new one."""

    def __init__(self, source, planes, rota):
        self.source = source
        self.rota = rota
        self._spare = [Plane(source.shape) for _ in range(planes)]
        self._held = OrderedDict()
        self._host = {}

    def _page(self, key):
        if key not in self._host:
            page = cupyx.empty_pinned(self.source.shape, dtype=np.float32)
            page[...] = self.source.load(key)
            self._host[key] = page
        return self._host[key]

    def get(self, key):
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        if self._spare:
            plane = self._spare.pop()
        else:
            _, plane = self._held.popitem(last=False)
        stream = self.rota.take()
        with plane.writing(stream) as room:
            room.set(self._page(key), stream=stream)
        self._held[key] = plane
        return plane
