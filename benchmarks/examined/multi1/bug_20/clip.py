import torch


def global_norm(params):
    return torch.stack([p.grad.norm() for p in params]).norm()


@torch.no_grad()
def clip_by_norm(params, limit):
    params = [p for p in params if p.grad is not None]
    norm = global_norm(params)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    return norm, scale


class Clipper:
    def __init__(self, params, limit):
        self.params = list(params)
        self.limit = limit
        self.scale = None

    def measure(self):
        norm, self.scale = clip_by_norm(self.params, self.limit)
        return norm

    @torch.no_grad()
    def apply(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.mul_(self.scale)
