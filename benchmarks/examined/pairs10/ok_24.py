"""Signed distances by Warp for a PyTorch data pipeline, two lanes."""
import torch
import warp as wp


@wp.kernel
def squared(points: wp.array(dtype=wp.vec3), center: wp.vec3, out: wp.array(dtype=float)):
    i = wp.tid()
    d = points[i] - center
    out[i] = wp.dot(d, d)


@wp.kernel
def signed(square: wp.array(dtype=float), radius: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sqrt(square[i]) - radius


class DistanceLane:
    """One Warp stream, seen from PyTorch through a wrapper."""

    def __init__(self, device):
        self.device = device
        self.stream = wp.Stream(device)
        self.torch_stream = wp.stream_to_torch(self.stream)

    def distances(self, count, seed):
        with torch.cuda.stream(self.torch_stream):
            generator = torch.Generator(device="cuda").manual_seed(seed)
            points = torch.rand(count, 3, device="cuda", generator=generator)
            result = torch.empty(count, device="cuda")
        with wp.ScopedStream(self.stream, sync_enter=False):
            square = wp.empty(count, dtype=float, device=self.device)
            wp.launch(squared, dim=count, device=self.device,
                      inputs=[wp.from_torch(points, dtype=wp.vec3), wp.vec3(0.5, 0.5, 0.5), square])
            wp.launch(signed, dim=count, device=self.device,
                      inputs=[square, 0.4, wp.from_torch(result)])
        return result


def main(count=1 << 20, rounds=40):
    wp.init()
    device = wp.get_device("cuda:0")
    lanes = [DistanceLane(device) for _ in range(2)]
    inside = 0
    for i in range(rounds):
        lane = lanes[i % 2]
        result = lane.distances(count, i)
        with torch.cuda.stream(lane.torch_stream):
            negative = (result < 0).sum()
        if i >= rounds - 2:
            inside += int(negative.cpu())
    torch.cuda.synchronize()
    print(inside)


if __name__ == "__main__":
    main()
