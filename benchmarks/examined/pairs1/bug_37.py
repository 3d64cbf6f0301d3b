"""ControlNet branch of an image pipeline, moved to its own stream with a decorator."""
import functools

import torch
from torch import nn


def branch(name):
    def wrap(method):
        @functools.wraps(method)
        def call(self, *tensors):
            side = self.streams[name]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                out = method(self, *tensors)
                for t in tensors:
                    t.record_stream(side)
            out.record_stream(torch.cuda.current_stream())
            return out

        return call

    return wrap


class ControlledUNet:
    def __init__(self, ch=64):
        self.streams = {"control": torch.cuda.Stream()}
        self.control = nn.Sequential(
            *[nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.SiLU()) for _ in range(6)]
        ).cuda()
        self.down = nn.Conv2d(4, ch, 3, padding=1).cuda()
        self.up = nn.Conv2d(ch, 4, 3, padding=1).cuda()
        self.hint = nn.Conv2d(3, ch, 1).cuda()

    @branch("control")
    def control_features(self, x, hint):
        return self.control(self.down(x) + self.hint(hint))

    def __call__(self, x, hint):
        features = self.control_features(x, hint)
        h = torch.relu(self.down(x))
        return self.up(h + features)


@torch.inference_mode()
def main(images=4, steps=25):
    net = ControlledUNet()
    results = []
    for _ in range(images):
        hint = torch.rand(1, 3, 128, 128, device="cuda")
        x = torch.randn(1, 4, 128, 128, device="cuda")
        for _ in range(steps):
            x = x - net(x, hint) / steps
        results.append(x)
    print(torch.cat(results).std().item())


if __name__ == "__main__":
    main()
