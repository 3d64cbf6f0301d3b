import numpy as np
import warp as wp


@wp.func
def boundary_value(p: wp.vec3) -> float:
    return wp.sin(4.0 * p[0]) * wp.cos(3.0 * p[1])


@wp.kernel
def sphere_walk(z: float, width: int, row0: int, steps: int, seed: int, weight: float, pixels: wp.array2d(dtype=wp.float32)):
    i, j = wp.tid()
    row = row0 + i
    state = wp.rand_init(seed, row * width + j)
    p = wp.vec3(float(j) / float(width), float(row) / float(width), z)
    for _ in range(steps):
        radius = 1.0 - wp.length(p)
        if radius < 1.0e-3:
            break
        p = p + radius * wp.sample_unit_sphere_surface(state)
    pixels[row, j] = pixels[row, j] + weight * boundary_value(p)


class LocalizedExample:
    """Each partition of the image is walked on an own Warp stream."""

    def __init__(self, height=1024, width=1024, slices=30, num_streams=4, device="cuda:0"):
        self.device = wp.get_device(device)
        self.height, self.width = height, width
        self.z = np.linspace(-0.9, 0.9, slices, dtype=np.float32)
        self.streams = [wp.Stream(self.device) for _ in range(num_streams)]
        self.pixels = wp.zeros((height, width), dtype=wp.float32, device=self.device)
        self.images = np.zeros((slices, height, width), dtype=np.float32)
        wp.synchronize_device(self.device)

    def render_slice(self, index: int, walks: int = 16, steps: int = 32):
        self.pixels.zero_()
        start = self.device.stream.record_event()
        rows = self.height // len(self.streams)
        for part, stream in enumerate(self.streams):
            stream.wait_event(start)
            for walk in range(walks):
                wp.launch(
                    sphere_walk,
                    dim=(rows, self.width),
                    inputs=[float(self.z[index]), self.width, part * rows, steps, index * walks + walk, 1.0 / walks],
                    outputs=[self.pixels],
                    stream=stream,
                )
        # Synchronize and copy results back
        wp.synchronize_stream(self.streams[0])
        self.images[index] = self.pixels.numpy()

    def render(self):
        for index in range(len(self.z)):
            self.render_slice(index)
        return self.images


if __name__ == "__main__":
    example = LocalizedExample()
    np.save("slices.npy", example.render())
