import torch

from .reducer import Reducer


def build(model, world_size, lr):
    device = next(model.parameters()).device
    reducer = Reducer(world_size, device)
    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(reducer.on_accumulated)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, foreach=True)
    optimizer.register_step_pre_hook(reducer.before_step)
    return optimizer


def warmup_lr(optimizer, step, base, over):
    scale = min(1.0, (step + 1) / over)
    for group in optimizer.param_groups:
        group["lr"] = base * scale


def frozen(model, prefixes):
    """Names of the parameters that training shall leave alone."""
    names = []
    for name, p in model.named_parameters():
        if any(name.startswith(prefix) for prefix in prefixes):
            p.requires_grad_(False)
            names.append(name)
    return names


def summary(model):
    total = sum(p.numel() for p in model.parameters())
    live = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{live:,} of {total:,} parameters are trained"
