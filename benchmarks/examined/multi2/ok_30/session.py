import torch.nn.functional as F


class Session:
    def __init__(self, model, opt, bag, observers, patience=20):
        self.model, self.opt = model, opt
        self.bag = bag
        self.observers = observers
        self.patience = patience
        self.best = float("inf")
        self.stale = 0

    def _advance(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        self.opt.zero_grad()
        loss.backward()
        for o in self.observers:
            o.after_backward()
        self.opt.step()
        return loss

    def _improved(self, value):
        if value < self.best - 1e-5:
            self.best, self.stale = value, 0
        else:
            self.stale += 1
        return self.stale < self.patience

    def run(self, batches):
        for step, (x, y) in enumerate(batches):
            loss = self._advance(x, y)
            value = loss.item()
            self.bag.close(step, value)
            if not self._improved(value):
                break
        return self.bag.rows
