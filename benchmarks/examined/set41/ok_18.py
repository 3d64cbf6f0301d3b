"""Differentiable torch feature extractor with a warp point-cloud op in the middle."""
import torch
import torch.nn as nn
import warp as wp

wp.init()


@wp.kernel
def centre_weights(
    pts: wp.array(dtype=wp.vec3),
    centre: wp.array(dtype=wp.vec3),
    radius: float,
    out: wp.array(dtype=float),
):
    i = wp.tid()
    d = wp.length(pts[i] - centre[0])
    out[i] = wp.exp(-(d * d) / (radius * radius))


class WarpGate:
    def __init__(self, count, device="cuda:0"):
        self.count = count
        self.weights = torch.empty(count, device=device)
        self.weights_wp = wp.from_torch(self.weights)

    def __call__(self, points, centre, radius):
        lane = wp.stream_from_torch(torch.cuda.current_stream())
        with wp.ScopedStream(lane, sync_enter=False):
            wp.launch(
                centre_weights,
                dim=self.count,
                inputs=[
                    wp.from_torch(points, dtype=wp.vec3),
                    wp.from_torch(centre, dtype=wp.vec3),
                    radius,
                ],
                outputs=[self.weights_wp],
            )
        return self.weights


class PointNet(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.head = nn.Linear(hidden, 10)

    def forward(self, pts, weights):
        f = self.local(pts) * weights.unsqueeze(-1)
        return self.head(f.sum(0) / weights.sum().clamp(min=1e-6))


class Extractor:
    def __init__(self, count=200_000):
        self.model = PointNet().cuda().eval()
        self.gate = WarpGate(count)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.count = count

    def _cloud(self, seed):
        gen = torch.Generator(device="cuda").manual_seed(seed)
        return torch.randn(self.count, 3, device="cuda", generator=gen)

    @torch.inference_mode()
    def run(self, seeds):
        logits = []
        with torch.cuda.stream(self.stream):
            for s in seeds:
                cloud = self._cloud(s)
                centre = cloud.mean(0, keepdim=True)
                w = self.gate(cloud, centre, 1.5)
                logits.append(self.model(cloud, w))
            out = torch.stack(logits).to("cpu", non_blocking=True)
        self.stream.synchronize()
        return out.argmax(-1)


def main():
    extractor = Extractor()
    print(extractor.run(range(16)).tolist())


if __name__ == "__main__":
    main()
