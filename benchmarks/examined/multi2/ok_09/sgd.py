import torch

from shards import make_shards


class ShardedSGD:
    def __init__(self, model, transport, lr=0.01, beta=0.9):
        self.shards = make_shards(model)
        self.transport = transport
        self.lr = lr
        self.beta = beta

    @torch.no_grad()
    def step(self):
        for shard in self.shards:
            self.transport.grads_down(shard)
            shard.momentum.mul_(self.beta).add_(shard.grads)
            shard.weights.add_(shard.momentum, alpha=-self.lr)
            self.transport.weights_up(shard)
        self.transport.join()

    def zero_grad(self):
        for shard in self.shards:
            for p in shard.params:
                if p.grad is not None:
                    p.grad.zero_()

    def set_lr(self, lr):
        self.lr = lr

    def decay(self, factor):
        self.lr *= factor
        return self.lr

    @property
    def host_bytes(self):
        return sum(12 * sum(s.sizes) for s in self.shards)
