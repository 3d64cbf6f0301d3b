"""Captured likelihood evaluation for an MCMC sampler; log-probabilities are part of the captured download."""
import math
import torch


class GraphedLogProb:
    """The graph scores a proposal and copies the log-probability to a pinned scalar."""

    def __init__(self, data, dim):
        self.data = data
        self.theta = torch.zeros(dim, device="cuda")
        self.value = torch.zeros(1, pin_memory=True)
        self._evaluate(warm=True)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._evaluate()

    def _evaluate(self, warm=False):
        logits = self.data[:, :-1] @ self.theta
        y = self.data[:, -1]
        ll = -(torch.nn.functional.softplus(logits) - y * logits).sum()
        lp = ll - 0.5 * self.theta.square().sum()
        if not warm:
            self.value.copy_(lp.reshape(1), non_blocking=True)

    def __call__(self, theta):
        self.theta.copy_(theta)
        self.graph.replay()
        return float(self.value[0])


class Metropolis:
    def __init__(self, logp, dim, step=0.02):
        self.logp, self.step_size = logp, step
        self.theta = torch.zeros(dim, device="cuda")
        self.current = logp(self.theta)
        self.accepted = 0

    def step(self, rng):
        proposal = self.theta + self.step_size * torch.randn_like(self.theta)
        value = self.logp(proposal)
        if math.log(rng.random() + 1e-300) < value - self.current:
            self.theta, self.current = proposal, value
            self.accepted += 1


def main():
    import random
    rng = random.Random(0)
    dim = 64
    x = torch.randn(500_000, dim, device="cuda")
    y = (x @ torch.randn(dim, device="cuda") > 0).float()
    sampler = Metropolis(GraphedLogProb(torch.cat((x, y[:, None]), 1), dim), dim)
    for _ in range(5000):
        sampler.step(rng)
    print(sampler.accepted / 5000, sampler.theta.norm().item())


if __name__ == "__main__":
    main()
