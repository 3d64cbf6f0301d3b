import torch

from stepper import SplitStepper


class Heat2D(SplitStepper):
    def __init__(self, field, k=0.2, loss=0.02):
        super().__init__(field)
        self.k = k
        self.loss = loss

    def interior(self, u, out):
        lap = (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            - 4.0 * u[1:-1, 1:-1]
        )
        torch.add(u[1:-1, 1:-1], lap, alpha=self.k, out=out[1:-1, 1:-1])

    def edges(self, u, out):
        keep = 1.0 - self.loss
        out[0, :] = u[1, :] * keep
        out[-1, :] = u[-2, :] * keep
        out[1:-1, 0] = u[1:-1, 1] * keep
        out[1:-1, -1] = u[1:-1, -2] * keep


class ForcedHeat2D(Heat2D):
    source = 1.0

    def after(self, out):
        n, m = out.shape
        out[n // 2 - 2:n // 2 + 2, m // 2 - 2:m // 2 + 2] += self.source
