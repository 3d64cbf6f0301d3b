"""Multi-sensor batches, uploaded over two copy streams."""
import itertools

import torch
from torch import nn


class SensorBatch:
    def __init__(self):
        self.fields = {}
        self.arrived = None

    def wait(self):
        current = torch.cuda.current_stream()
        current.wait_event(self.arrived)
        for t in self.fields.values():
            t.record_stream(current)
        return self

    def __getitem__(self, key):
        return self.fields[key]


class TwoLaneUploader:
    """Spreads the fields of a sample over the two copy engines' streams."""

    def __init__(self):
        self.lanes = itertools.cycle([torch.cuda.Stream(), torch.cuda.Stream()])

    def upload(self, sample):
        batch = SensorBatch()
        for key, host in sample.items():
            lane = next(self.lanes)
            with torch.cuda.stream(lane):
                batch.fields[key] = host.pin_memory().to("cuda", non_blocking=True)
                batch.arrived = lane.record_event()
        return batch


def samples(n):
    for _ in range(n):
        yield {
            "image": torch.rand(16, 3, 224, 224),
            "imu": torch.randn(16, 400, 6),
            "lidar": torch.randn(16, 4096, 4),
        }


class Odometry(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 32, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.imu = nn.GRU(6, 32, batch_first=True)
        self.lidar = nn.Linear(4, 32)
        self.head = nn.Linear(96, 6)

    def forward(self, batch):
        a = self.image(batch["image"])
        b = self.imu(batch["imu"])[0][:, -1]
        c = self.lidar(batch["lidar"]).amax(1)
        return self.head(torch.cat([a, b, c], 1))


def main():
    net = Odometry().cuda()
    opt = torch.optim.Adam(net.parameters())
    uploader = TwoLaneUploader()
    for sample in samples(300):
        pose = net(uploader.upload(sample).wait())
        opt.zero_grad()
        pose.square().mean().backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
