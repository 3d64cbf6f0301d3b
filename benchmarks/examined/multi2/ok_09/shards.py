import torch


class Shard:
    """A run of parameters with one flat host buffer for weights and for gradients."""

    def __init__(self, params):
        self.params = list(params)
        self.sizes = [p.numel() for p in self.params]
        n = sum(self.sizes)
        self.weights = torch.empty(n, pin_memory=True)
        self.grads = torch.zeros(n, pin_memory=True)
        self.momentum = torch.zeros(n)
        for view, p in zip(self.split(self.weights), self.params):
            view.copy_(p.detach().flatten())

    def split(self, flat):
        return flat.split(self.sizes)

    def pairs(self, flat):
        for view, p in zip(self.split(flat), self.params):
            yield view.view_as(p), p


def make_shards(model, limit=1 << 24):
    shards, run, size = [], [], 0
    for p in model.parameters():
        run.append(p)
        size += p.numel()
        if size >= limit:
            shards.append(Shard(run))
            run, size = [], 0
    if run:
        shards.append(Shard(run))
    return shards
