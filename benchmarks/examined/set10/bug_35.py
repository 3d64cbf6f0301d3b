import cupy as cp
import numpy as np
import torch

_tonemap = cp.ElementwiseKernel(
    "float32 hdr, float32 exposure",
    "uint8 ldr",
    """
    float v = hdr * exposure;
    v = v / (1.0f + v);
    ldr = (unsigned char)(255.0f * powf(v, 1.0f / 2.2f) + 0.5f);
    """,
    "tonemap",
)


class Simulation:
    """Torch side: advances a wave field on its own stream."""

    def __init__(self, height, width, device="cuda"):
        self.render_stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(self.render_stream):
            self.u = torch.zeros(height, width, device=device)
            self.v = torch.zeros(height, width, device=device)
            self.u[height // 2, width // 2] = 50.0
            self.frame = torch.zeros(height, width, device=device)
        k = torch.tensor([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
        self.kernel = k.view(1, 1, 3, 3).to(device)
        torch.cuda.synchronize()

    def advance(self, substeps=8, dt=0.1):
        with torch.cuda.stream(self.render_stream):
            for _ in range(substeps):
                lap = torch.nn.functional.conv2d(self.u[None, None], self.kernel, padding=1)[0, 0]
                self.v.add_(lap, alpha=dt)
                self.u.add_(self.v, alpha=dt)
            torch.abs(self.u, out=self.frame)

    def export(self):
        with torch.cuda.stream(self.render_stream):
            return self.frame.__dlpack__(stream=-1)


class Viewer:
    """CuPy side: tone mapping and histogram for the display."""

    def __init__(self, exposure=1.5):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.exposure = np.float32(exposure)

    def show(self, simulation):
        with self.stream:
            hdr = cp.fromDlpack(simulation.export())
            ldr = _tonemap(hdr, self.exposure)
            hist = cp.bincount(ldr.ravel(), minlength=256)
            image = ldr.get(stream=self.stream)
            counts = hist.get(stream=self.stream)
        return image, counts


def run(frames=100, size=1024):
    simulation, viewer = Simulation(size, size), Viewer()
    out = []
    for _ in range(frames):
        simulation.advance()
        image, counts = viewer.show(simulation)
        out.append((image.mean(), counts.argmax()))
    return out
