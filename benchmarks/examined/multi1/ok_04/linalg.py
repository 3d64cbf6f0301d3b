import torch


def gram(a):
    return a @ a.transpose(-1, -2)


def shifted(g, eps):
    n = g.shape[-1]
    return g + eps * torch.eye(n, device=g.device, dtype=g.dtype)


def factor(g):
    return torch.linalg.cholesky(g)


def logdet(chol):
    return 2.0 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def evidence(pool, a, eps):
    g = pool.submit(gram, a)
    s = pool.submit(shifted, g, eps)
    c = pool.submit(factor, s)
    return pool.submit(logdet, c)
