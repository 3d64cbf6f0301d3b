import torch

from engine import Engine


class Tagger(Engine):
    """Plain multi-label head."""

    def finalize(self, host):
        return (host > 0).nonzero().tolist()


class Detector(Engine):
    def __init__(self, *args, momentum=0.9, **kw):
        super().__init__(*args, **kw)
        self.momentum = momentum
        self.usage = torch.zeros(self.logits.shape[1], device=self.logits.device)

    def preprocess(self, x):
        return (x - x.mean(dim=1, keepdim=True)) / (x.std(dim=1, keepdim=True) + 1e-6)

    def refine(self):
        self.logits.sub_(self.logits.amax(dim=1, keepdim=True))
        probs = self.logits.softmax(dim=1)
        self.usage.mul_(self.momentum).add_(probs.mean(0), alpha=1 - self.momentum)

    def finalize(self, host):
        best = host.argmax(dim=1)
        return best.tolist()
