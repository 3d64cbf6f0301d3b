"""Hybrid simulator: Torch predicts a forcing field, CuPy integrates it; exchange by DLPack."""
import cupy as cp
import torch


class ForcingNet(torch.nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(1, channels, 5, padding=2), torch.nn.SiLU(),
            torch.nn.Conv2d(channels, 1, 5, padding=2),
        )

    def forward(self, u):
        return self.net(u[None, None])[0, 0]


class SpectralIntegrator:
    """Semi-implicit diffusion step with the forcing that it is given."""

    def __init__(self, n, nu, dt, stream):
        self.dt = dt
        self.stream = stream
        with stream:
            k = cp.fft.fftfreq(n, d=1.0 / n).astype(cp.float32)
            kr = cp.fft.rfftfreq(n, d=1.0 / n).astype(cp.float32)
            self.damp = 1.0 / (1.0 + nu * dt * (k[:, None] ** 2 + kr[None, :] ** 2))

    def step(self, u, forcing):
        u_hat = cp.fft.rfft2(u + self.dt * forcing)
        return cp.fft.irfft2(u_hat * self.damp, s=u.shape).astype(cp.float32)


class HybridModel:
    def __init__(self, n=1024, nu=1.0e-4, dt=1.0e-2):
        self.torch_stream = torch.cuda.Stream()
        self.cupy_stream = cp.cuda.Stream(non_blocking=True)
        self.cupy_as_torch = torch.cuda.ExternalStream(self.cupy_stream.ptr)
        self.integrator = SpectralIntegrator(n, nu, dt, self.cupy_stream)
        with torch.cuda.stream(self.torch_stream):
            self.net = ForcingNet().cuda().eval()
            self.field = torch.randn(n, n, device="cuda")
        self.energy = []

    @torch.inference_mode()
    def step(self):
        with torch.cuda.stream(self.torch_stream):
            forcing = self.net(self.field).contiguous()
            with self.cupy_stream:
                u = cp.from_dlpack(self.field)
                f = cp.from_dlpack(forcing)
                new = self.integrator.step(u, f)
                self.energy.append(cp.square(new).sum())
                del u, f
            self.torch_stream.wait_stream(self.cupy_as_torch)
            shared = torch.as_tensor(new, device="cuda")
            self.field = shared.clone()
            self.cupy_as_torch.wait_stream(self.torch_stream)
            del shared, forcing

    def run(self, steps):
        for _ in range(steps):
            self.step()
        self.torch_stream.synchronize()
        self.cupy_stream.synchronize()
        with self.cupy_stream:
            return [float(e) for e in self.energy]


def main():
    torch.manual_seed(0)
    energy = HybridModel().run(200)
    print(energy[0], energy[-1])


if __name__ == "__main__":
    main()
