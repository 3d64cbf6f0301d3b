import sys

import torch
from torch import nn

from preview import PreviewDecoder, PreviewTap
from sampler import EulerSampler, HeunSampler


def denoiser(ch=4, mid=128):
    return nn.Sequential(
        nn.Conv2d(ch, mid, 3, padding=1), nn.SiLU(),
        nn.Conv2d(mid, mid, 3, padding=1), nn.SiLU(),
        nn.Conv2d(mid, ch, 3, padding=1),
    )


def main():
    torch.cuda.set_device(0)
    net = denoiser().cuda().eval()
    tap = PreviewTap(PreviewDecoder().cuda().eval())
    cls = HeunSampler if "--heun" in sys.argv[1:] else EulerSampler
    sampler = cls(net, steps=50, callback=tap)
    x = torch.randn(4, 4, 96, 96, device="cuda") * 14
    z = sampler(x)
    for step, frame in tap.gallery():
        print(step, frame.shape, frame.mean())
    print(z.std().item())


if __name__ == "__main__":
    main()
