import torch


class BaseLoop:
    def __init__(self, net, lr):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), lr=lr)
        self.setup()

    def setup(self):
        pass

    def before_update(self, step):
        pass

    def after_update(self, step):
        pass

    def loss(self, batch):
        raise NotImplementedError

    def fit(self, batches):
        value = None
        for step, batch in enumerate(batches):
            self.opt.zero_grad(set_to_none=True)
            value = self.loss(batch)
            value.backward()
            self.before_update(step)
            self.opt.step()
            self.after_update(step)
        return value.item()
