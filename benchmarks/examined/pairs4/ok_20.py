"""Augmentations on a side stream through a decorator."""
import functools

import torch
import torch.nn.functional as F
from torch import nn

_LANES = {}


def lane(name):
    if name not in _LANES:
        _LANES[name] = torch.cuda.Stream()
    return _LANES[name]


def on_lane(name):
    """Runs the function on a named stream."""

    def wrap(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            caller, side = torch.cuda.current_stream(), lane(name)
            side.wait_stream(caller)
            with torch.cuda.stream(side):
                result = fn(*args, **kwargs)
            caller.wait_stream(side)
            return result

        return inner

    return wrap


@on_lane("augment")
def random_resized_crop(x, size):
    n = x.shape[0]
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0] = theta[:, 1, 1] = 0.6
    theta[:, :, 2].uniform_(-0.4, 0.4)
    return F.grid_sample(x, F.affine_grid(theta, (n, 3, size, size), align_corners=False), align_corners=False)


@on_lane("augment")
def color_jitter(x):
    gain = torch.empty(x.shape[0], 3, 1, 1, device=x.device).uniform_(0.7, 1.3)
    return (x * gain).clamp_(0, 1)


def main():
    net = nn.Sequential(nn.Conv2d(3, 32, 5, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(200):
        images = torch.rand(32, 3, 160, 160, device="cuda")
        a = net(color_jitter(random_resized_crop(images, 128)))
        b = net(color_jitter(random_resized_crop(images, 128)))
        loss = (F.normalize(a, dim=1) - F.normalize(b, dim=1)).square().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
