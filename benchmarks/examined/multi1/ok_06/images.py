import torch

from background import BackgroundLoader


class AugmentedLoader(BackgroundLoader):
    def transform(self, tensors):
        img, label = tensors
        img = img.float().div_(255.0)
        flip = torch.rand(img.shape[0], device=img.device) < 0.5
        img = torch.where(flip[:, None, None, None], img.flip(-1), img)
        mean = img.mean(dim=(0, 2, 3), keepdim=True)
        std = img.std(dim=(0, 2, 3), keepdim=True).clamp_min(1e-3)
        return [(img - mean) / std, label]


def fake_batch(i, n=64, size=64):
    gen = torch.Generator().manual_seed(i)
    img = torch.randint(0, 256, (n, 3, size, size), generator=gen, dtype=torch.uint8)
    label = torch.randint(0, 10, (n,), generator=gen)
    return img, label


def labels_of(count, n=64):
    return [fake_batch(i, n)[1] for i in range(count)]
