"""Ray generation in CuPy, radiance network in PyTorch, both on their own streams."""
import cupy as cp
import torch
import torch.nn as nn

_RAYS = cp.ElementwiseKernel(
    "int32 w, int32 h, float32 focal, float32 jx, float32 jy",
    "float32 x, float32 y, float32 z",
    """
    float u = (i % w) + jx - 0.5f * w;
    float v = (i / w) + jy - 0.5f * h;
    float n = rsqrtf(u * u + v * v + focal * focal);
    x = u * n; y = v * n; z = focal * n;
    """,
    "make_rays",
)


class RayMaker:
    def __init__(self, width, height, focal, device=0):
        self.size = (width, height)
        self.focal = focal
        with cp.cuda.Device(device):
            self.stream = cp.cuda.Stream(non_blocking=True)

    def make(self, jitter):
        w, h = self.size
        with self.stream:
            rays = cp.empty((3, h * w), dtype=cp.float32)
            _RAYS(w, h, self.focal, jitter[0], jitter[1], rays[0], rays[1], rays[2])
        return rays

    def lend(self, rays):
        """Zero-copy view for the stream that is current in torch."""
        with self.stream:
            return torch.from_dlpack(rays)

    def give_back(self):
        """Later work of the maker follows what torch has queued so far."""
        ext = cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        self.stream.wait_event(ext.record())


class Radiance(nn.Module):
    def __init__(self, bands=6, hidden=128):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands))
        self.net = nn.Sequential(
            nn.Linear(3 * 2 * bands, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 3)
        )

    def forward(self, rays):
        x = rays.t().unsqueeze(-1) * self.freq
        return torch.sigmoid(self.net(torch.cat([x.sin(), x.cos()], -1).flatten(1)))


class Renderer:
    def __init__(self, width=320, height=240, focal=300.0):
        self.maker = RayMaker(width, height, focal)
        self.model = Radiance().cuda().eval()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.shape = (height, width, 3)

    @torch.inference_mode()
    def render(self, jitters):
        with torch.cuda.stream(self.stream):
            total = torch.zeros(self.shape, device="cuda").view(-1, 3)
            for jitter in jitters:
                rays = self.maker.make(jitter)
                view = self.maker.lend(rays)
                total += self.model(view)
                self.maker.give_back()
                del view, rays
            image = (total / len(jitters)).view(self.shape).cpu()
        return image


def animation(frames, samples=8, seed=0):
    gen = torch.Generator().manual_seed(seed)
    renderer = Renderer()
    return torch.stack([renderer.render(torch.rand(samples, 2, generator=gen).tolist()) for _ in range(frames)])
