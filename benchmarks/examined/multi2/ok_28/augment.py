import torch


class Normalize:
    def __init__(self, mean, std, device):
        self.mean = torch.tensor(mean, device=device).view(1, -1, 1, 1)
        self.std = torch.tensor(std, device=device).view(1, -1, 1, 1)

    def __call__(self, sample):
        x = sample.image.float().div_(255)
        x.sub_(self.mean).div_(self.std)
        return sample._replace(image=x)


class Mirror:
    """Every second row left to right."""

    def __call__(self, sample):
        x = sample.image.clone()
        x[::2] = x[::2].flip(-1)
        return sample._replace(image=x)


class Chain:
    def __init__(self, *parts):
        self.parts = parts

    def __call__(self, sample):
        for p in self.parts:
            sample = p(sample)
        return sample
