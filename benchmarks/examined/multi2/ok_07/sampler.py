import torch


class EulerSampler:
    def __init__(self, net, steps=50, callback=None):
        self.net = net
        self.steps = steps
        self.callback = callback

    @torch.inference_mode()
    def __call__(self, x):
        sigmas = torch.linspace(14.0, 0.02, self.steps + 1).tolist()
        for i in range(self.steps):
            eps = self.net(x / (1 + sigmas[i] ** 2) ** 0.5)
            x0 = x - sigmas[i] * eps
            if self.callback is not None:
                self.callback(i, {"x0": x0, "sigma": sigmas[i]})
            x = x + (sigmas[i + 1] - sigmas[i]) * eps
        return x


class HeunSampler(EulerSampler):
    """Second order; twice the calls of the network."""

    @torch.inference_mode()
    def __call__(self, x):
        sigmas = torch.linspace(14.0, 0.02, self.steps + 1).tolist()
        for i in range(self.steps):
            eps = self.net(x / (1 + sigmas[i] ** 2) ** 0.5)
            if self.callback is not None:
                self.callback(i, {"x0": x - sigmas[i] * eps, "sigma": sigmas[i]})
            h = sigmas[i + 1] - sigmas[i]
            guess = x + h * eps
            eps2 = self.net(guess / (1 + sigmas[i + 1] ** 2) ** 0.5)
            x = x + h * 0.5 * (eps + eps2)
        return x
