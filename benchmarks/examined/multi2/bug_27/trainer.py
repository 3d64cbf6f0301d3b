import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model, opt, accumulate=2):
        self.model = model
        self.opt = opt
        self.accumulate = accumulate
        self.losses = []

    def _micro(self, x, y):
        loss = F.mse_loss(self.model(x), y) / self.accumulate
        loss.backward()
        self.losses.append(loss.detach())

    def turn(self, micros):
        self.opt.zero_grad()
        for x, y in micros:
            self._micro(x, y)
        self.opt.step()

    def fit(self, source, turns):
        for _ in range(turns):
            self.turn([next(source) for _ in range(self.accumulate)])
        self.opt.drain()
        return torch.stack(self.losses).mean().item()
