class Scope:
    """Rooms taken inside are usable on the worker's queue and end with it."""

    def __init__(self, pool, queue):
        self.pool = pool
        self.queue = queue
        self._rooms = []
        self._leaving = []

    def room(self, size):
        ptr = self.pool.take(size)
        self.queue.heed(self.pool.queue.mark())
        self._rooms.append(ptr)
        return ptr

    def on_leave(self, fn):
        self._leaving.append(fn)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for fn in self._leaving:
            fn(self)
        for ptr in self._rooms:
            self.pool.give(ptr)
        self._rooms.clear()
        self._leaving.clear()
        return False
