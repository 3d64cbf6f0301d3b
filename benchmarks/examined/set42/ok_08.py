"""Warp sensors evaluated on the stream that PyTorch is using at the moment."""
import torch
import torch.nn as nn
import warp as wp


@wp.kernel
def height_scan(points: wp.array(dtype=wp.vec3), origins: wp.array(dtype=wp.vec3),
                hits: wp.array(dtype=wp.float32, ndim=2)):
    env, ray = wp.tid()
    o = origins[env]
    best = float(1.0e3)
    for k in range(points.shape[0]):
        d = points[k] - o
        horizontal = wp.abs(wp.sqrt(d[0] * d[0] + d[1] * d[1]) - float(ray) * 0.01)
        best = wp.min(best, horizontal + wp.abs(d[2]))
    hits[env, ray] = best


class WarpOnTorchStream:
    """Context: Warp launches go to torch's current stream of the device."""

    def __init__(self, device):
        self.device = device
        self._scope = None

    def __enter__(self):
        stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
        self._scope = wp.ScopedStream(stream)
        self._scope.__enter__()
        return stream

    def __exit__(self, *exc):
        self._scope.__exit__(*exc)
        self._scope = None


class HeightScanner:
    def __init__(self, terrain, rays, device):
        self.device = device
        self.rays = rays
        self.terrain = terrain.contiguous()
        self.terrain_wp = wp.from_torch(self.terrain, dtype=wp.vec3)

    def scan(self, origins):
        hits = torch.empty(origins.shape[0], self.rays, device=self.device)
        with WarpOnTorchStream(self.device):
            wp.launch(height_scan, dim=hits.shape,
                      inputs=[self.terrain_wp, wp.from_torch(origins, dtype=wp.vec3),
                              wp.from_torch(hits)], device=self.device)
        return hits


class Agent(nn.Module):
    def __init__(self, rays):
        super().__init__()
        self.fc = nn.Linear(rays, 3)

    def forward(self, hits):
        return torch.tanh(self.fc(hits)) * 0.1


@torch.no_grad()
def rollout(scanner, agent, steps, device):
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        origins = torch.rand(128, 3, device=device)
        for _ in range(steps):
            hits = scanner.scan(origins)
            origins = origins + agent(hits)
    stream.synchronize()
    return origins.cpu()


def main():
    wp.init()
    device = "cuda:0"
    scanner = HeightScanner(torch.rand(2000, 3, device=device), 32, device)
    print(rollout(scanner, Agent(32).to(device), 25, device).mean())


if __name__ == "__main__":
    main()
