import torch

from shadow import ShadowWeights


class Trainer:
    lr = 1e-3

    def __init__(self, model):
        self.model = model.cuda()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        self.shadow = ShadowWeights(self.model)

    def compute_loss(self, batch):
        raise NotImplementedError

    def before_update(self):
        self.shadow.settle()

    def after_update(self):
        self.shadow.absorb()

    def fit(self, batches):
        for batch in batches:
            loss = self.compute_loss(batch)
            self.opt.zero_grad()
            loss.backward()
            self.before_update()
            self.opt.step()
            self.after_update()
        self.shadow.settle()
        return self.model
