import torch


class Trainer:
    def __init__(self, model, optimizer, lossf):
        self.model = model
        self.optimizer = optimizer
        self.lossf = lossf
        self.history = []

    def step(self, x, y):
        loss = self.lossf(self.model(x), y)
        loss.backward()
        torch.cuda.current_stream().synchronize()
        self.optimizer.step()
        return loss.item()

    def fit(self, data, log_every=20):
        for i, (x, y) in enumerate(data):
            value = self.step(x, y)
            self.history.append(value)
            if i % log_every == 0:
                print(i, round(value, 5))
        return self.history

    def best(self):
        return min(self.history) if self.history else None

    def plateau(self, window=50, tol=1e-3):
        if len(self.history) < 2 * window:
            return False
        old = sum(self.history[-2 * window:-window]) / window
        new = sum(self.history[-window:]) / window
        return old - new < tol * abs(old)
