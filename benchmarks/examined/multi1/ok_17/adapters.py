import torch

from cache_base import ResidentCache


class AdapterCache(ResidentCache):
    def __init__(self, dim, rank, **kw):
        super().__init__(**kw)
        self.dim = dim
        self.rank = rank

    def read(self, key):
        gen = torch.Generator().manual_seed(hash(key) % (2 ** 31))
        return torch.randn(2, self.rank, self.dim, generator=gen)

    def convert(self, tensor):
        scale = tensor.square().mean(dim=(1, 2), keepdim=True).rsqrt()
        return super().convert(tensor * scale / self.rank)


class LoraLinear:
    def __init__(self, dim, cache):
        self.weight = torch.randn(dim, dim).div_(dim ** 0.5).to(cache.device, cache.dtype)
        self.cache = cache

    def __call__(self, x, key):
        down, up = self.cache.get(key).unbind(0)
        return x @ self.weight.t() + (x @ down.t()) @ up
