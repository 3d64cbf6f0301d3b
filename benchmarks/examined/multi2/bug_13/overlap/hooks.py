from typing import Dict, List

from torch import nn


def attach(model: nn.Module, buckets: List, lane) -> List:
    """Send each bucket off as soon as its last gradient has been accumulated."""
    owner: Dict[int, object] = {}
    for bucket in buckets:
        for p in bucket.params:
            owner[id(p)] = bucket

    def on_grad(param):
        bucket = owner[id(param)]
        if bucket.arrived():
            lane.submit(bucket)

    handles = []
    for p in model.parameters():
        if p.requires_grad:
            handles.append(p.register_post_accumulate_grad_hook(on_grad))
    return handles


def detach(handles: List) -> None:
    """Take all hooks off again, e.g. before the model is exported."""
    while handles:
        handles.pop().remove()


def coverage(model: nn.Module, buckets: List) -> float:
    """Share of the trainable elements that some bucket holds."""
    held = sum(p.numel() for b in buckets for p in b.params)
    wanted = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return held / max(wanted, 1)
