"""Preview writer: frames are rendered on the GPU and encoded by a worker thread."""
import queue
import threading
from pathlib import Path

import torch

YUV = torch.tensor([[0.299, 0.587, 0.114],
                    [-0.168736, -0.331264, 0.5],
                    [0.5, -0.418688, -0.081312]])


class FrameEncoder(threading.Thread):
    """Converts RGB frames to planar YUV420 and appends them to a raw file."""

    def __init__(self, path, height, width, device, depth=4):
        super().__init__(daemon=True)
        self.path = Path(path)
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.matrix = YUV.to(device)
        torch.cuda.synchronize(device)
        self.host = torch.empty(height * width * 3 // 2, dtype=torch.uint8, pin_memory=True)
        self.jobs = queue.Queue(maxsize=depth)
        self.written = 0
        self.error = None

    def submit(self, frame):
        if self.error is not None:
            raise self.error
        self.jobs.put(frame)

    def close(self):
        self.jobs.put(None)
        self.join()

    def _to_yuv420(self, rgb):
        yuv = torch.einsum("ij,jhw->ihw", self.matrix, rgb)
        y = yuv[0].mul(255.0)
        uv = torch.nn.functional.avg_pool2d(yuv[1:].unsqueeze(0), 2)[0].add(0.5).mul(255.0)
        flat = torch.cat([y.reshape(-1), uv.reshape(-1)])
        return flat.round_().clamp_(0, 255).to(torch.uint8)

    def _write(self, out, rgb):
        with torch.cuda.stream(self.stream):
            self.host.copy_(self._to_yuv420(rgb), non_blocking=True)
        self.stream.synchronize()
        out.write(self.host.numpy().tobytes())
        self.written += 1

    def run(self):
        torch.cuda.set_device(self.device)
        try:
            with self.path.open("wb") as out:
                while True:
                    rgb = self.jobs.get()
                    if rgb is None:
                        return
                    self._write(out, rgb)
        except Exception as exc:
            self.error = exc


class Renderer:
    def __init__(self, height, width, device):
        ys = torch.linspace(-1, 1, height, device=device)
        xs = torch.linspace(-1, 1, width, device=device)
        self.y, self.x = torch.meshgrid(ys, xs, indexing="ij")
        self.field = torch.nn.Sequential(
            torch.nn.Linear(3, 64), torch.nn.Tanh(),
            torch.nn.Linear(64, 64), torch.nn.Tanh(),
            torch.nn.Linear(64, 3), torch.nn.Sigmoid()).to(device)

    @torch.no_grad()
    def frame(self, t):
        coords = torch.stack([self.x, self.y, torch.full_like(self.x, t)], dim=-1)
        return self.field(coords).permute(2, 0, 1).contiguous()


def main(height=1080, width=1920, frames=240, out="preview.yuv"):
    device = torch.device("cuda:0")
    renderer = Renderer(height, width, device)
    encoder = FrameEncoder(out, height, width, device)
    encoder.start()
    for i in range(frames):
        encoder.submit(renderer.frame(i / frames))
    encoder.close()
    if encoder.error is not None:
        raise encoder.error
    print(encoder.written, "frames written")


if __name__ == "__main__":
    main()
