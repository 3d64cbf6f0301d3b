from probes import all_finite, healthy, total_norm


class LossScale:
    def __init__(self, start=2.0 ** 12, grow_every=200):
        self.value = start
        self.grow_every = grow_every
        self.good = 0
        self.skipped = 0

    def scale(self, loss):
        return loss * self.value

    def step(self, opt, max_norm):
        grads = [p.grad for g in opt.param_groups for p in g["params"] if p.grad is not None]
        if not all_finite(grads):
            self.value *= 0.5
            self.good = 0
            self.skipped += 1
            return None
        for g in grads:
            g.div_(self.value)
        norm = total_norm(grads)
        if healthy(norm) and norm > max_norm:
            for g in grads:
                g.mul_(max_norm / norm)
        opt.step()
        self.good += 1
        if self.good % self.grow_every == 0:
            self.value *= 2.0
        return norm
