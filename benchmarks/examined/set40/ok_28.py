"""Warp height-field solver called from a PyTorch side stream."""
import torch
import warp as wp

wp.init()


@wp.kernel
def laplace(h: wp.array2d(dtype=float), out: wp.array2d(dtype=float), c: float):
    i, j = wp.tid()
    ni = h.shape[0]
    nj = h.shape[1]
    up = h[wp.max(i - 1, 0), j]
    dn = h[wp.min(i + 1, ni - 1), j]
    lf = h[i, wp.max(j - 1, 0)]
    rt = h[i, wp.min(j + 1, nj - 1)]
    out[i, j] = h[i, j] + c * (up + dn + lf + rt - 4.0 * h[i, j])


def diffuse(field, steps, c=0.2):
    """Runs on whatever PyTorch stream is current for the field's device."""
    other = torch.empty_like(field)
    a, b = wp.from_torch(field), wp.from_torch(other)
    stream = wp.stream_from_torch(torch.cuda.current_stream(field.device))
    with wp.ScopedStream(stream):
        for _ in range(steps):
            wp.launch(laplace, dim=field.shape, inputs=[a, b, c])
            a, b = b, a
    return field if steps % 2 == 0 else other


class Terrain(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(()))
        self.size = size

    @torch.no_grad()
    def forward(self, noise):
        h = torch.nn.functional.interpolate(
            noise[None, None], size=(self.size, self.size), mode="bilinear", align_corners=False)
        h = (h[0, 0] * self.gain).contiguous()
        h = diffuse(h, steps=40)
        return h - h.mean()


class Worker:
    def __init__(self, size, device):
        self.device = device
        self.net = Terrain(size).to(device)
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    def tile(self, seed, res=64):
        gen = torch.Generator(device=self.device).manual_seed(seed)
        with torch.cuda.stream(self.stream):
            noise = torch.rand(res, res, device=self.device, generator=gen)
            return self.net(noise)

    def finish(self, *tiles):
        main = torch.cuda.current_stream(self.device)
        main.wait_stream(self.stream)
        for t in tiles:
            t.record_stream(main)
        return torch.stack(tiles)


def main(size=1024, tiles=8):
    device = torch.device("cuda:0")
    worker = Worker(size, device)
    made = [worker.tile(seed) for seed in range(tiles)]
    atlas = worker.finish(*made)
    print("atlas", tuple(atlas.shape), "range", float(atlas.min()), float(atlas.max()))


if __name__ == "__main__":
    main()
