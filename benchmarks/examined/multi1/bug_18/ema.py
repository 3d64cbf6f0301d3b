from contextlib import contextmanager

import torch


def make_shadow(model):
    return [p.detach().clone() for p in model.parameters()]


@torch.no_grad()
def update(shadow, model, decay):
    from lanes import enter

    with enter():
        for e, p in zip(shadow, model.parameters()):
            e.lerp_(p, 1.0 - decay)


def settle():
    from lanes import leave

    leave()


@contextmanager
def swapped(model, shadow):
    params = list(model.parameters())
    saved = [torch.empty_like(p) for p in params]
    with torch.no_grad():
        for p, e, s in zip(params, shadow, saved):
            s.copy_(p)
            p.copy_(e)
    yield model
    with torch.no_grad():
        for p, s in zip(params, saved):
            p.copy_(s)
