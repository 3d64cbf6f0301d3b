"""Warp: frames are written back to pinned arrays on a copy stream while the next one is rendered."""
import numpy as np
import warp as wp


@wp.kernel
def render(t: float, width: int, img: wp.array(dtype=float)):
    i = wp.tid()
    x = float(i % width) / float(width)
    y = float(i // width) / float(width)
    img[i] = wp.sin(40.0 * x + t) * wp.cos(30.0 * y - t)


class Frame:
    def __init__(self, n, device):
        self.dev = wp.zeros(n, dtype=float, device=device)
        self.pin = wp.zeros(n, dtype=float, device="cpu", pinned=True)
        self.drawn = wp.Event(device)
        self.copied = wp.Event(device)
        self.number = -1


class Renderer:
    def __init__(self, width, frames=3, device="cuda:0"):
        self.width = width
        self.device = wp.get_device(device)
        self.draw = wp.Stream(self.device)
        self.copy = wp.Stream(self.device)
        self.frames = [Frame(width * width, self.device) for _ in range(frames)]
        wp.synchronize_device(self.device)

    def _finish(self, fr: Frame, sink):
        if fr.number < 0:
            return
        wp.synchronize_event(fr.copied)
        sink(fr.number, fr.pin.numpy().reshape(self.width, self.width))
        fr.number = -1

    def play(self, count, sink):
        for k in range(count):
            fr = self.frames[k % len(self.frames)]
            self._finish(fr, sink)
            wp.launch(render, dim=fr.dev.size, inputs=[0.05 * k, self.width, fr.dev], device=self.device, stream=self.draw)
            self.draw.record_event(fr.drawn)
            self.copy.wait_event(fr.drawn)
            wp.copy(fr.pin, fr.dev, stream=self.copy)
            self.copy.record_event(fr.copied)
            fr.number = k
        for k in range(count, count + len(self.frames)):
            self._finish(self.frames[k % len(self.frames)], sink)


def main():
    wp.init()
    means = {}
    Renderer(512).play(30, lambda k, img: means.__setitem__(k, float(np.abs(img).mean())))
    print(len(means), means[29])


if __name__ == "__main__":
    main()
