"""Tiled Warp renderer with a recorder that keeps frames on the host."""
import numpy as np
import warp as wp


@wp.kernel
def raymarch(eyes: wp.array(dtype=wp.vec3), t: float,
             rgb: wp.array(dtype=wp.uint8, ndim=4)):
    cam, y, x = wp.tid()
    u = float(x) / float(rgb.shape[2])
    v = float(y) / float(rgb.shape[1])
    s = float(0.0)
    for k in range(48):
        p = eyes[cam] + wp.vec3(u, v, float(k) * 0.1)
        s += wp.sin(wp.dot(p, p) + t)
    shade = wp.clamp(s / 48.0 * 0.5 + 0.5, 0.0, 1.0) * 255.0
    for c in range(3):
        rgb[cam, y, x, c] = wp.uint8(shade)


class RenderData:
    """Device buffers and their page-locked host images, by output name."""

    def __init__(self, num_cameras, height, width, device):
        shape = (num_cameras, height, width, 3)
        self.device = device
        self.warp_buffers = {"rgb": wp.zeros(shape, dtype=wp.uint8, device=device)}
        self.host_buffers = {"rgb": wp.zeros(shape, dtype=wp.uint8, device="cpu", pinned=True)}
        self.copy_stream = wp.Stream(device)


class TiledRenderer:
    def __init__(self, eyes, height, width, device):
        self.device = device
        self.eyes = wp.array(eyes, dtype=wp.vec3, device=device)
        self.data = RenderData(len(eyes), height, width, device)
        wp.synchronize_device(device)

    def render(self, t):
        wp.wait_stream(self.data.copy_stream)
        rgb = self.data.warp_buffers["rgb"]
        wp.launch(raymarch, dim=rgb.shape[:3], inputs=[self.eyes, t, rgb], device=self.device)

    def read_output(self, name):
        src = self.data.warp_buffers.get(name)
        if src is None:
            raise KeyError(name)
        dst = self.data.host_buffers[name]
        rendered = wp.get_stream(self.device).record_event()
        self.data.copy_stream.wait_event(rendered)
        wp.copy(dst, src, stream=self.data.copy_stream)
        return dst


class Recorder:
    def __init__(self, renderer, every):
        self.renderer = renderer
        self.every = every
        self.frames = []

    def on_step(self, step):
        if step % self.every == 0:
            image = self.renderer.read_output("rgb").numpy()
            self.frames.append(image.copy())

    def montage(self):
        return np.concatenate(self.frames, axis=1)


def main():
    wp.init()
    rng = np.random.default_rng(0)
    renderer = TiledRenderer(rng.random((64, 3)).astype(np.float32), 128, 128, "cuda:0")
    recorder = Recorder(renderer, 4)
    for step in range(40):
        renderer.render(step * 0.1)
        recorder.on_step(step)
    print(recorder.montage().shape, recorder.montage().mean())


if __name__ == "__main__":
    main()
