"""Asynchronous halo refresh behind a small handle object."""
import torch


class Handle:
    def __init__(self, value, event):
        self._value = value
        self._event = event

    def result(self):
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)
            self._event = None
        return self._value


class HaloExchanger:
    """Copies the border rows of every tile to its neighbours."""

    def __init__(self, tiles, width):
        n, c = tiles[0].shape[1], tiles[0].shape[2]
        self.width = width
        self.stream = torch.cuda.Stream(priority=-1)
        self.top = [torch.zeros(width, n, c, device="cuda") for _ in tiles]
        self.bottom = [torch.zeros(width, n, c, device="cuda") for _ in tiles]

    def start(self, tiles):
        w = self.width
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for i in range(len(tiles)):
                self.top[i].copy_(tiles[i - 1][-w:])
                self.bottom[i].copy_(tiles[(i + 1) % len(tiles)][:w])
            event = self.stream.record_event()
        return Handle((self.top, self.bottom), event)


class TileSolver:
    def __init__(self, rows, cols, channels, tiles):
        self.tiles = [torch.rand(rows, cols, channels, device="cuda") for _ in range(tiles)]
        self.spare = [torch.empty_like(t) for t in self.tiles]
        self.halo = HaloExchanger(self.tiles, 1)

    def _interior(self, t, out):
        out[1:-1].copy_(t[1:-1])
        out[1:-1].add_(t[:-2] + t[2:] - 2 * t[1:-1], alpha=0.2)

    def _border(self, t, top, bottom, out):
        out[0].copy_(t[0] + 0.2 * (top[-1] + t[1] - 2 * t[0]))
        out[-1].copy_(t[-1] + 0.2 * (t[-2] + bottom[0] - 2 * t[-1]))

    def step(self):
        handle = self.halo.start(self.tiles)
        for t, out in zip(self.tiles, self.spare):
            self._interior(t, out)
        top, bottom = handle.result()
        for i, (t, out) in enumerate(zip(self.tiles, self.spare)):
            self._border(t, top[i], bottom[i], out)
        self.tiles, self.spare = self.spare, self.tiles

    def mass(self):
        return sum(float(t.double().sum()) for t in self.tiles)


def main():
    torch.manual_seed(0)
    solver = TileSolver(512, 512, 8, tiles=6)
    before = solver.mass()
    for _ in range(200):
        solver.step()
    print(before, solver.mass())


if __name__ == "__main__":
    main()
