import torch


def pairwise(a, b):
    return (a[:, None, :] - b[None, :, :]).square().sum(-1)


def assign(points, centers):
    return pairwise(points, centers).argmin(dim=1)


def update(points, labels, k):
    sums = torch.zeros(k, points.shape[1], device=points.device)
    sums.index_add_(0, labels, points)
    counts = torch.bincount(labels, minlength=k).clamp_min(1)
    return sums / counts[:, None]


def kmeans(points, centers, rounds=10):
    for _ in range(rounds):
        labels = assign(points, centers)
        centers = update(points, labels, centers.shape[0])
    inertia = pairwise(points, centers).amin(dim=1).mean()
    return centers, inertia


def spread(centers):
    d = pairwise(centers, centers)
    return d.sum() / (d.shape[0] * (d.shape[0] - 1))
