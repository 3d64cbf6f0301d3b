import math

from trainer import Callback


class History(Callback):
    def __init__(self):
        self.loss = []
        self.norm = []

    def on_values(self, trainer, step, host):
        loss, norm = host.tolist()
        self.loss.append(loss)
        self.norm.append(norm)


class EarlyStop(Callback):
    def __init__(self, patience=25, delta=1e-4):
        self.patience = patience
        self.delta = delta
        self.best = math.inf
        self.bad = 0

    def on_step_end(self, trainer, step, host):
        loss = float(host[0])
        if loss < self.best - self.delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        if self.bad >= self.patience:
            trainer.stop = True
