import queue

from device import Slot


class Belt:
    """Slots in circulation between a reader and a writer."""

    def __init__(self, slots, size):
        self.vacant = queue.Queue()
        self.loaded = queue.Queue()
        for _ in range(slots):
            self.vacant.put(Slot(size))

    def __iter__(self):
        while True:
            slot = self.loaded.get()
            if slot is None:
                return
            yield slot
            self.vacant.put(slot)
