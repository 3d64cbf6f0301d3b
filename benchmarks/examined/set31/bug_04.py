import torch


class TiledFilter:
    def __init__(self, lanes=4, taps=31):
        self.streams = [torch.cuda.Stream() for _ in range(lanes)]
        self.kernel = torch.ones(1, 1, taps, taps, device="cuda") / taps**2
        self.pad = taps // 2
        torch.cuda.synchronize()

    def _filter(self, tile, out):
        res = torch.nn.functional.conv2d(tile[None, None], self.kernel, padding=self.pad)
        out.copy_(res[0, 0])

    def __call__(self, image):
        tiles = image.chunk(len(self.streams), dim=0)
        outs = [torch.empty_like(t) for t in tiles]
        ready = torch.cuda.Event()
        ready.record()
        for stream, tile, out in zip(self.streams, tiles, outs):
            stream.wait_event(ready)
            with torch.cuda.stream(stream):
                self._filter(tile, out)
        return self.merge(outs)

    def merge(self, outs):
        merged = torch.cat(outs, dim=0)
        for stream in self.streams:
            stream.synchronize()
        return merged


def main():
    f = TiledFilter()
    image = torch.rand(4096, 4096, device="cuda")
    for _ in range(5):
        image = f(image)
    print(image.mean().item())


if __name__ == "__main__":
    main()
