import torch
import torch.nn as nn
from cuda import cudart


def create_stream():
    err, handle = cudart.cudaStreamCreate()
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(err)
    return torch.cuda.ExternalStream(int(handle))


class PoseEstimator:
    """Fixed-size model; heatmaps are moved out on a separate stream."""

    def __init__(self, joints=17, size=64, depth=32):
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 5, stride=4, padding=2), nn.ReLU(), nn.Conv2d(64, joints, 1)
        ).cuda().eval()
        self.heatmaps = torch.empty(1, joints, size, size, device="cuda")
        self.host = torch.empty(depth, joints, size, size, pin_memory=True)
        self.out_stream = create_stream()

    @torch.inference_mode()
    def infer(self, crop, row):
        self.heatmaps.copy_(self.net(crop))
        with torch.cuda.stream(self.out_stream):
            self.host[row].copy_(self.heatmaps[0], non_blocking=True)

    def keypoints(self, n):
        self.out_stream.synchronize()
        flat = self.host[:n].flatten(2).argmax(-1)
        side = self.host.shape[-1]
        return torch.stack([flat % side, flat // side], dim=-1)


def main():
    pose = PoseEstimator()
    for row in range(32):
        pose.infer(torch.rand(1, 3, 256, 256, device="cuda"), row)
    print(pose.keypoints(32).float().mean(0)[:3].tolist())


if __name__ == "__main__":
    main()
