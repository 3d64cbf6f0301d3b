from contextlib import ExitStack

import torch
from torch import nn


class Extractor:
    def __init__(self, net: nn.Module):
        self.net = net.cuda().eval()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def start(self, images: torch.Tensor, stack: ExitStack) -> torch.Tensor:
        outer = torch.cuda.current_stream()
        self.stream.wait_stream(outer)
        with torch.cuda.stream(self.stream):
            out = self.net(images).flatten(1)
            done = self.stream.record_event()
        stack.callback(out.record_stream, outer)
        stack.callback(outer.wait_event, done)
        return out


class Ensemble:
    def __init__(self):
        self.members = {
            "edges": Extractor(nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4))),
            "color": Extractor(nn.Sequential(nn.AvgPool2d(8), nn.Conv2d(3, 16, 1), nn.AdaptiveAvgPool2d(4))),
            "texture": Extractor(nn.Sequential(nn.Conv2d(3, 32, 7, 4), nn.GELU(), nn.AdaptiveMaxPool2d(2))),
        }
        self.head = nn.Linear(16 * 16 + 16 * 16 + 32 * 4, 10).cuda()

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        with ExitStack() as stack:
            feats = [m.start(images, stack) for m in self.members.values()]
        return self.head(torch.cat(feats, dim=1))


@torch.inference_mode()
def main():
    ens = Ensemble()
    votes = torch.zeros(10, device="cuda")
    for _ in range(12):
        images = torch.rand(32, 3, 256, 256, device="cuda")
        votes += ens(images).softmax(-1).sum(0)
        images.fill_(0)
    print(votes.tolist())


if __name__ == "__main__":
    main()
