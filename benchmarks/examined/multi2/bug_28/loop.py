import torch
import torch.nn.functional as F


class Meter:
    def __init__(self, device):
        self.total = torch.zeros((), device=device)
        self.count = 0

    def add(self, loss):
        self.total += loss.detach()
        self.count += 1

    def value(self):
        return self.total.item() / max(self.count, 1)


def train_epoch(model, feed, opt, meter):
    for batch in feed:
        loss = F.binary_cross_entropy_with_logits(model(batch), batch.label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        meter.add(loss)
        del batch, loss
    return meter
