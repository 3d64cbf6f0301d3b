import torch


class Sessions:
    def __init__(self, spiller, layers, tokens, dim):
        self.spiller = spiller
        self.shape = (layers, 2, tokens, dim)
        self.live = {}

    def open(self, key, seed):
        cache = torch.full(self.shape, seed, device="cuda")
        self.live[key] = cache
        return cache

    def extend(self, key, pos, kv):
        self.live[key][:, :, pos].copy_(kv)

    def park(self, key):
        self.spiller.spill(key, self.live.pop(key))

    def unpark(self, key):
        self.live[key] = self.spiller.complete(key).to("cuda")
        return self.live[key]

    def close(self, key):
        if key in self.spiller:
            self.spiller.forget(key)
        else:
            self.live.pop(key, None)
