import torch
import torch.nn as nn


class AsyncEMA:
    """Exponential moving average of weights, updated beside the training."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay=0.999):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.detach().clone() for p in self.params]
        self.decay = decay
        self.stream = torch.cuda.Stream()
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_stream(self.stream)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_mul_(self.shadow, self.decay)
            torch._foreach_add_(self.shadow, self.params, alpha=1.0 - self.decay)

    def weights(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return [s.clone() for s in self.shadow]


class swapped_weights:
    """Runs a block with the averaged weights in place of the trained ones."""

    def __init__(self, ema: AsyncEMA):
        self.ema = ema

    def __enter__(self):
        average = self.ema.weights()
        self.backup = [p.data for p in self.ema.params]
        for p, value in zip(self.ema.params, average):
            p.data = value
        return self

    def __exit__(self, *exc):
        for p, value in zip(self.ema.params, self.backup):
            p.data = value
        self.backup = None


@torch.no_grad()
def evaluate(model, loader):
    total = torch.zeros((), device="cuda")
    for x, y in loader:
        total += nn.functional.mse_loss(model(x.cuda()), y.cuda())
    return total.item() / len(loader)


def train(model: nn.Module, loader, val_loader, epochs: int = 10):
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ema = AsyncEMA(model, optimizer)
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        with swapped_weights(ema):
            print(epoch, evaluate(model, val_loader))
