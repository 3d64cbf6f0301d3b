from collections import OrderedDict

from blocks import BlockStore


class Scheduler:
    def __init__(self, count, shape):
        self.store = BlockStore(count, shape)
        self.live = OrderedDict()
        self.parked = set()
        self.swaps = 0

    def _make_room(self):
        if self.store.available() == 0:
            key, b = self.live.popitem(last=False)
            self.store.page_out(key, b)
            self.parked.add(key)
            self.swaps += 1

    def block(self, key):
        if key in self.live:
            self.live.move_to_end(key)
            return self.store.pool[self.live[key]]
        self._make_room()
        if key in self.parked:
            b = self.store.page_in(key)
            self.parked.discard(key)
        else:
            b = self.store.take()
            self.store.pool[b].zero_()
        self.live[key] = b
        return self.store.pool[b]

    def drop(self, key):
        if key in self.live:
            self.store.give(self.live.pop(key))
