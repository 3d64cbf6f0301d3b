"""A decorator that moves auxiliary losses to a named stream."""
import functools

import torch
from torch import nn

_streams = {}


def named_stream(name):
    if name not in _streams:
        _streams[name] = torch.cuda.Stream()
    return _streams[name]


def _tensors(values):
    for v in values:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from _tensors(v)
        elif isinstance(v, dict):
            yield from _tensors(v.values())


def on_stream(name):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            side, caller = named_stream(name), torch.cuda.current_stream()
            side.wait_stream(caller)
            with torch.cuda.stream(side):
                out = fn(*args, **kwargs)
            for t in _tensors((args, kwargs)):
                t.record_stream(side)
            joined = side.record_event()

            def collect():
                stream = torch.cuda.current_stream()
                stream.wait_event(joined)
                for t in _tensors((out,)):
                    t.record_stream(stream)
                return out

            return collect

        return wrapper

    return decorate


@on_stream("stats")
def feature_statistics(features, temperature):
    flat = [nn.functional.normalize(f.detach().flatten(1), dim=-1) for f in features]
    grams = [f @ f.T / temperature for f in flat]
    return {"entropy": torch.stack([torch.logsumexp(g, -1).mean() for g in grams]), "gram": grams[-1]}


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.body = nn.Conv2d(32, 64, 3, 2, 1)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        a = torch.relu(self.stem(x))
        b = torch.relu(self.body(a))
        return self.head(b.mean((2, 3))), [a, b]


def main(steps=100):
    model = Backbone().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(64, 3, 64, 64, device="cuda")
        y = torch.randint(0, 10, (64,), device="cuda")
        logits, features = model(x)
        stats = feature_statistics(features, temperature=0.1)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        del features
        opt.step()
        if step % 20 == 0:
            values = stats()
            print(step, loss.item(), values["entropy"].tolist(), values["gram"].diagonal().sum().item())


if __name__ == "__main__":
    main()
