"""Evaluates independent branches of a block on their own streams."""
import torch
import torch.nn as nn


class Branches(nn.Module):
    def __init__(self, branches, device="cuda"):
        super().__init__()
        self.branches = nn.ModuleList(branches).to(device)
        self.device = torch.device(device)
        self.streams = [torch.cuda.Stream(self.device) for _ in self.branches[1:]]

    def _parallel(self, x):
        main = torch.cuda.current_stream(self.device)
        fork = main.record_event()
        outputs = [None] * len(self.branches)
        used = []
        try:
            for index, stream in enumerate(self.streams, start=1):
                stream.wait_event(fork)
                used.append(stream)
                with torch.cuda.stream(stream):
                    outputs[index] = self.branches[index](x)
            outputs[0] = self.branches[0](x)
        finally:
            for stream in used:
                main.wait_stream(stream)
        for out in outputs[1:]:
            out.record_stream(main)
        return outputs

    def forward(self, x):
        if len(self.branches) == 1:
            return self.branches[0](x)
        if torch.is_grad_enabled():
            return torch.cat([branch(x) for branch in self.branches], dim=1)
        return torch.cat(self._parallel(x), dim=1)


def conv(cin, cout, kernel):
    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


def inception(cin):
    return Branches(
        [
            conv(cin, 64, 1),
            nn.Sequential(conv(cin, 48, 1), conv(48, 64, 5)),
            nn.Sequential(conv(cin, 64, 1), conv(64, 96, 3)),
            nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), conv(cin, 32, 1)),
        ]
    )


@torch.no_grad()
def predict(images, depth=3):
    blocks, channels = [], images.shape[1]
    for _ in range(depth):
        blocks.append(inception(channels).eval())
        channels = 256
    x = images
    for block in blocks:
        x = block(x)
        x.mul_(0.5)
    return x.mean(dim=(2, 3))
