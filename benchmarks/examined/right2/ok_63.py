"""A Warp kernel graph replayed from PyTorch."""
import torch
import warp as wp


@wp.kernel
def diffuse(src: wp.array2d(dtype=float), dst: wp.array2d(dtype=float), k: float):
    i, j = wp.tid()
    n = src.shape[0]
    m = src.shape[1]
    up = src[wp.max(i - 1, 0), j]
    down = src[wp.min(i + 1, n - 1), j]
    left = src[i, wp.max(j - 1, 0)]
    right = src[i, wp.min(j + 1, m - 1)]
    dst[i, j] = src[i, j] + k * (up + down + left + right - 4.0 * src[i, j])


class DiffusionGraph:
    def __init__(self, shape, sweeps=8, k=0.2):
        self.torch_stream = torch.cuda.Stream()
        self.stream = wp.stream_from_torch(self.torch_stream)
        with torch.cuda.stream(self.torch_stream):
            self.ping = torch.zeros(shape, device="cuda")
            self.pong = torch.zeros(shape, device="cuda")
        self.torch_stream.synchronize()
        a, b = wp.from_torch(self.ping), wp.from_torch(self.pong)
        self._views = (a, b)
        wp.load_module(device=a.device)
        with wp.ScopedCapture(stream=self.stream, force_module_load=False) as capture:
            for _ in range(sweeps):
                wp.launch(diffuse, dim=shape, inputs=[a, b, k], stream=self.stream)
                wp.launch(diffuse, dim=shape, inputs=[b, a, k], stream=self.stream)
        self.graph = capture.graph

    def __call__(self, field):
        caller = torch.cuda.current_stream()
        self.torch_stream.wait_stream(caller)
        with torch.cuda.stream(self.torch_stream):
            self.ping.copy_(field)
            field.record_stream(self.torch_stream)
            wp.capture_launch(self.graph, stream=self.stream)
            result = self.ping.clone()
        caller.wait_stream(self.torch_stream)
        result.record_stream(caller)
        return result


def main():
    wp.init()
    graph = DiffusionGraph((512, 512))
    field = torch.rand(512, 512, device="cuda")
    drift = []
    for _ in range(20):
        smoothed = graph(field)
        drift.append((smoothed - field).abs().max())
        field = smoothed + 0.01 * torch.rand_like(smoothed)
    return torch.stack(drift).tolist()


if __name__ == "__main__":
    print(main())
