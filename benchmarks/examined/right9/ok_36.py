import torch


class Skip(Exception):
    pass


def decode(kind, raw):
    if kind == "bad":
        raise Skip(kind)
    return raw


class TileUpdater:
    """Writes decoded tiles into a shared mosaic from a helper stream."""

    def __init__(self, side, tile):
        self.tile = tile
        self.mosaic = torch.zeros(side * tile, side * tile, device="cuda")
        self.side = side
        self.stream = torch.cuda.Stream()

    def _window(self, k):
        r, c = divmod(k, self.side)
        t = self.tile
        return self.mosaic[r * t : (r + 1) * t, c * t : (c + 1) * t]

    def apply(self, tiles):
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        written = 0
        try:
            for k, (kind, raw) in tiles:
                block = decode(kind, raw)
                with torch.cuda.stream(self.stream):
                    fresh = block.to("cuda", non_blocking=True)
                    self._window(k).lerp_(fresh, 0.25)
                written += 1
        except Skip:
            return written
        finally:
            current.wait_stream(self.stream)
        return written

    def sharpen(self):
        blur = torch.nn.functional.avg_pool2d(self.mosaic[None, None], 3, 1, 1)[0, 0]
        self.mosaic.add_(self.mosaic - blur, alpha=0.1)


def main():
    updater = TileUpdater(8, 128)
    gen = torch.Generator().manual_seed(0)
    for frame in range(60):
        tiles = []
        for k in range(64):
            kind = "bad" if (frame * 64 + k) % 97 == 96 else "ok"
            tiles.append((k, (kind, torch.rand(128, 128, generator=gen).pin_memory())))
        n = updater.apply(tiles)
        updater.sharpen()
        if n < 64:
            print(frame, n, updater.mosaic.mean().item())


if __name__ == "__main__":
    main()
