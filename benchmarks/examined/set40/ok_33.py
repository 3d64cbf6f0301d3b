"""Video matting: decode thread, convert thread and a model on the main thread."""
import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Picture:
    index: int
    planes: torch.Tensor
    ready: torch.cuda.Event
    released: torch.cuda.Event


class SurfacePool:
    def __init__(self, count, shape, device):
        self.free = queue.Queue()
        for _ in range(count):
            surf = torch.empty(shape, dtype=torch.uint8, device=device)
            self.free.put((surf, None))
        torch.cuda.synchronize(device)

    def take(self, stream):
        surf, released = self.free.get()
        if released is not None:
            stream.wait_event(released)
        return surf

    def give(self, pic):
        self.free.put((pic.planes, pic.released))


class Decoder(threading.Thread):
    def __init__(self, clip, pool, out, device):
        super().__init__(daemon=True)
        self.clip, self.pool, self.out, self.device = clip, pool, out, device
        self.stream = torch.cuda.Stream(device)

    def run(self):
        torch.cuda.set_device(self.device)
        for i in range(self.clip.shape[0]):
            surf = self.pool.take(self.stream)
            with torch.cuda.stream(self.stream):
                surf.copy_(self.clip[i])
                ready = self.stream.record_event()
            self.out.put(Picture(i, surf, ready, torch.cuda.Event()))
        self.out.put(None)


class Converter:
    def __init__(self, pool, device):
        self.pool = pool
        self.stream = torch.cuda.Stream(device)

    def to_float(self, pic):
        self.stream.wait_event(pic.ready)
        with torch.cuda.stream(self.stream):
            rgb = pic.planes.float().div_(255.0)
            rgb = F.interpolate(rgb.unsqueeze(0), size=(288, 512), mode="bilinear", align_corners=False)
            pic.released.record(self.stream)
            done = self.stream.record_event()
        self.pool.give(pic)
        return rgb, done


class Matting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 24, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(24, 24, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(24, 1, 1))

    def forward(self, x):
        return torch.sigmoid(self.body(x))


@torch.no_grad()
def main(frames=120, height=720, width=1280):
    device = torch.device("cuda:0")
    clip = torch.randint(0, 256, (frames, 3, height, width), dtype=torch.uint8, device=device)
    pool = SurfacePool(4, (3, height, width), device)
    pics = queue.Queue(maxsize=2)
    net = Matting().to(device).eval()
    coverage = torch.zeros(frames, device=device)
    torch.cuda.synchronize(device)
    Decoder(clip, pool, pics, device).start()
    converter = Converter(pool, device)
    main_stream = torch.cuda.current_stream(device)
    while True:
        pic = pics.get()
        if pic is None:
            break
        rgb, done = converter.to_float(pic)
        main_stream.wait_event(done)
        rgb.record_stream(main_stream)
        coverage[pic.index] = net(rgb).mean()
    print("mean coverage", coverage.mean().item())


if __name__ == "__main__":
    main()
