import threading
from multiprocessing.pool import ThreadPool

import torch
from torch import nn


class PatchEncoder(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.norm = nn.LayerNorm(dim)
        self._tls = threading.local()

    def _lane(self):
        lane = getattr(self._tls, "lane", None)
        if lane is None:
            lane = self._tls.lane = torch.cuda.Stream()
        return lane

    @torch.no_grad()
    def forward(self, job):
        patch, settled = job
        lane = self._lane()
        with torch.cuda.stream(lane):
            lane.wait_event(settled)
            patch.record_stream(lane)
            y = self.down(torch.relu(self.up(patch)))
            y = self.norm(patch + y)
            done = torch.cuda.Event()
            done.record(lane)
        return y, done


class Mosaic:
    def __init__(self, encoder, workers=4):
        self.encoder = encoder.cuda().eval()
        self.pool = ThreadPool(workers)

    def _jobs(self, image, patch):
        for row in image.unfold(0, patch, patch):
            piece = row.transpose(0, 1).contiguous()
            ev = torch.cuda.Event()
            ev.record()
            yield piece, ev

    @torch.no_grad()
    def __call__(self, image, patch=16):
        here = torch.cuda.current_stream()
        parts = []
        for y, done in self.pool.map(self.encoder, list(self._jobs(image, patch))):
            here.wait_event(done)
            y.record_stream(here)
            parts.append(y)
        return torch.cat(parts)

    def close(self):
        self.pool.close()
        self.pool.join()


def main():
    mosaic = Mosaic(PatchEncoder(256, 1024))
    for seed in range(3):
        torch.manual_seed(seed)
        image = torch.randn(512, 256, device="cuda")
        out = mosaic(image)
        print(seed, tuple(out.shape), out.std().item())
    mosaic.close()


if __name__ == "__main__":
    main()
