"""Orientation search by FFT cross-correlation spread over a few streams."""
import argparse
import math

import torch


def rotations(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    q = torch.randn(n, 4, generator=g)
    q = q / q.norm(dim=1, keepdim=True)
    w, x, y, z = q.unbind(1)
    return torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
        2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
        2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
    ], dim=1).reshape(n, 3, 3)


class Projector:
    def __init__(self, volume):
        self.vol = volume[None, None]
        n = volume.shape[-1]
        ax = torch.linspace(-1, 1, n, device=volume.device)
        yy, xx = torch.meshgrid(ax, ax, indexing="ij")
        zz = torch.zeros_like(xx)
        self.plane = torch.stack([xx, yy, zz], dim=-1).reshape(-1, 3)
        self.n = n

    def __call__(self, rots):
        pts = torch.einsum("pk,bjk->bpj", self.plane, rots)
        pts = pts.reshape(1, rots.shape[0], self.n, self.n, 3)
        img = torch.nn.functional.grid_sample(self.vol, pts, align_corners=True)
        return img[0, 0]


class Best:
    def __init__(self, size, device):
        self.score = torch.full((size, size), -math.inf, device=device)
        self.index = torch.full((size, size), -1, dtype=torch.long, device=device)

    def update(self, corr, index):
        better = corr > self.score
        self.score = torch.where(better, corr, self.score)
        self.index = torch.where(better, index, self.index)


class Matcher:
    def __init__(self, image, volume, streams):
        self.device = image.device
        self.size = image.shape[-1]
        self.image_ft = torch.fft.rfft2(image)
        self.project = Projector(volume)
        self.streams = [torch.cuda.Stream(self.device) for _ in range(streams)]
        self.best = [Best(self.size, self.device) for _ in range(streams)]
        torch.cuda.synchronize(self.device)

    def _correlate(self, template, index, best):
        ft = torch.fft.rfft2(template, s=(self.size, self.size))
        corr = torch.fft.irfft2(self.image_ft * ft.conj(), s=(self.size, self.size))
        best.update(corr, index)

    def batch(self, rots, first):
        proj = self.project(rots)
        proj = proj - proj.mean(dim=(1, 2), keepdim=True)
        proj = proj / proj.std(dim=(1, 2), keepdim=True).clamp_min(1e-6)
        for i in range(proj.shape[0]):
            k = i % len(self.streams)
            with torch.cuda.stream(self.streams[k]):
                self._correlate(proj[i], first + i, self.best[k])
        for s in self.streams:
            torch.cuda.default_stream(self.device).wait_stream(s)

    def result(self):
        torch.cuda.synchronize(self.device)
        out = self.best[0]
        for other in self.best[1:]:
            take = other.score > out.score
            out.score = torch.where(take, other.score, out.score)
            out.index = torch.where(take, other.index, out.index)
        return out


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--image", type=int, default=2048)
    ap.add_argument("--box", type=int, default=128)
    ap.add_argument("--rotations", type=int, default=2000)
    ap.add_argument("--streams", type=int, default=4)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    image = torch.randn(args.image, args.image, device=device)
    volume = torch.randn(args.box, args.box, args.box, device=device)
    rots = rotations(args.rotations).to(device)
    m = Matcher(image, volume, args.streams)
    for first in range(0, args.rotations, 32):
        m.batch(rots[first:first + 32], first)
    best = m.result()
    k = int(best.score.argmax())
    print("best score", float(best.score.flatten()[k]), "rotation", int(best.index.flatten()[k]))


if __name__ == "__main__":
    main()
