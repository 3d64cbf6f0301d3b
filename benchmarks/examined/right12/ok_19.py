import copy

import torch
from torch import nn


class EmaTrainer:
    """Keeps an averaged copy of the weights, refreshed beside the next forward pass."""

    def __init__(self, model, decay=0.999, lr=1e-3, device="cuda"):
        self._device = torch.device(device, torch.cuda.current_device())
        self._model = model.to(self._device)
        self._ema = copy.deepcopy(self._model).requires_grad_(False).eval()
        self._decay = decay
        self._opt = torch.optim.Adam(self._model.parameters(), lr=lr)
        self._side = torch.cuda.Stream(self._device)
        self._averaged = torch.cuda.Event()
        self._pairs = ([p for p in self._ema.parameters()],
                       [p.detach() for p in self._model.parameters()])
        for group in self._pairs:
            for tensor in group:
                tensor.record_stream(self._side)

    def _average(self):
        averages, weights = self._pairs
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.no_grad(), torch.cuda.stream(self._side):
            torch._foreach_lerp_(averages, weights, 1.0 - self._decay)
            self._averaged.record(self._side)

    def _join(self):
        torch.cuda.current_stream(self._device).wait_event(self._averaged)

    def step(self, x, y):
        self._opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self._model(x), y)
        loss.backward()
        self._join()
        self._opt.step()
        self._average()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, x, y, averaged=True):
        if averaged:
            self._join()
        net = self._ema if averaged else self._model
        return (net(x).argmax(1) == y).float().mean().item()

    def state(self):
        self._join()
        return {
            "model": {k: v.cpu() for k, v in self._model.state_dict().items()},
            "ema": {k: v.cpu() for k, v in self._ema.state_dict().items()},
        }

    def load(self, state):
        self._join()
        self._model.load_state_dict(state["model"])
        self._ema.load_state_dict(state["ema"])

    def restart_average(self):
        self._join()
        with torch.no_grad():
            torch._foreach_copy_(*self._pairs)


def batch(size, gen):
    x = torch.randn(size, 64, device="cuda", generator=gen)
    return x, (x[:, :4].sum(1) > 0).long()


def main():
    gen = torch.Generator(device="cuda").manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2))
    trainer = EmaTrainer(net, decay=0.98)
    saved = None
    for step in range(300):
        trainer.step(*batch(128, gen))
        if step == 100:
            saved = trainer.state()
        if step == 150:
            trainer.restart_average()
    print(trainer.evaluate(*batch(2048, gen)), trainer.evaluate(*batch(2048, gen), averaged=False))
    trainer.load(saved)
    print(trainer.evaluate(*batch(2048, gen)))


if __name__ == "__main__":
    main()
