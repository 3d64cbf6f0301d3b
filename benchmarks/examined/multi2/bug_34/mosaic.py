from contextlib import ExitStack


class Mosaic:
    """Puts tiles of one byte value side by side in a device picture."""

    def __init__(self, arena, painters, picture, tile):
        self.arena = arena
        self.painters = list(painters)
        self.picture = picture
        self.tile = tile

    def _spot(self, i):
        return self.picture + i * self.tile

    def lay(self, values):
        for i, v in enumerate(values):
            painter = self.painters[i % len(self.painters)]
            with ExitStack() as stack:
                room = self.arena.room(self.tile, users=[painter])
                ptr = stack.enter_context(room)
                painter.fill(ptr, v, self.tile)
                painter.copy(self._spot(i), ptr, self.tile)

    def read(self, out):
        first, *others = self.painters
        for p in others:
            first.after(p)
        return first.fetch(out, self.picture)
