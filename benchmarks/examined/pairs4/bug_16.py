"""Teleoperation view: stereo warp into alternating images, overlay on another stream."""
import torch
import torch.nn.functional as F


class EyeBuffer:
    def __init__(self, h, w):
        self.image = torch.zeros(1, 3, h, w, device="cuda")
        self.written = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class StereoView:
    def __init__(self, h=480, w=640):
        self.buffers = [EyeBuffer(h, w), EyeBuffer(h, w)]
        self.theta = torch.eye(2, 3, device="cuda")[None]
        self.overlay = torch.zeros(1, 3, h, w, device="cuda")
        self.meter = torch.zeros((), device="cuda")
        torch.cuda.synchronize()
        self.warp_stream = torch.cuda.Stream(priority=-1)
        self.overlay_stream = torch.cuda.Stream()
        self.tick = 0

    def warp(self, host_frame):
        buf = self.buffers[self.tick % 2]
        with torch.cuda.stream(self.warp_stream):
            frame = host_frame.to("cuda", non_blocking=True)
            self.warp_stream.wait_event(buf.consumed)
            grid = F.affine_grid(self.theta, frame.shape, align_corners=False)
            buf.image.copy_(F.grid_sample(frame, grid, align_corners=False))
            buf.written.record()

    def compose(self):
        buf = self.buffers[self.tick % 2]
        other = self.buffers[(self.tick + 1) % 2]
        with torch.cuda.stream(self.overlay_stream):
            self.overlay_stream.wait_event(other.written)
            mixed = torch.lerp(buf.image, self.overlay, 0.2)
            self.meter += mixed.mean()
            self.overlay.copy_(mixed)
            buf.consumed.record()
        self.tick += 1


def run(frames):
    view = StereoView()
    for _ in range(frames):
        frame = torch.rand(1, 3, 480, 640).pin_memory()
        view.warp(frame)
        view.compose()
    torch.cuda.synchronize()
    return view.meter.item() / frames


if __name__ == "__main__":
    print(run(300))
