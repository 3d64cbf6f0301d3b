"""Two tower video model: the flow tower runs on its own stream."""
import torch
import torch.nn as nn


class Tower(nn.Module):
    def __init__(self, channels, width, out):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(channels, width, 3, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.Conv3d(width, width, 3, stride=2, padding=1), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(width, out))

    def forward(self, x):
        return self.net(x)


class SideStream:
    """Runs the enclosed block on a second stream."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.outer = torch.cuda.current_stream()
        self.stream.wait_stream(self.outer)
        self.ctx = torch.cuda.stream(self.stream)
        self.ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self.ctx.__exit__(*exc)

    def join(self, *tensors):
        self.outer.wait_stream(self.stream)
        for t in tensors:
            t.record_stream(self.outer)


class TwoStreamNet(nn.Module):
    def __init__(self, classes=400):
        super().__init__()
        self.rgb = Tower(3, 64, 256)
        self.flow = Tower(2, 64, 256)
        self.head = nn.Linear(512, classes)
        self.stream = torch.cuda.Stream()

    def forward(self, frames, flow):
        with SideStream(self.stream) as side:
            motion = self.flow(flow)
        appearance = self.rgb(frames)
        side.join(motion)
        return self.head(torch.cat([appearance, motion], dim=1))


def main():
    model = TwoStreamNet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for step in range(500):
        frames = torch.randn(8, 3, 16, 112, 112, device="cuda")
        flow = torch.randn(8, 2, 16, 112, 112, device="cuda")
        target = torch.randint(0, 400, (8,), device="cuda")
        loss = criterion(model(frames, flow), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
