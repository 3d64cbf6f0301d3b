import torch


def tree_map(fn, node):
    if isinstance(node, torch.Tensor):
        return fn(node)
    if isinstance(node, dict):
        return {k: tree_map(fn, v) for k, v in node.items()}
    if isinstance(node, (list, tuple)):
        return type(node)(tree_map(fn, v) for v in node)
    return node


def send_to(node, device, *, non_blocking=True):
    """Moves all tensors of a nested container."""
    device = torch.device(device)

    def move(t):
        t = t.detach()
        if t.device == device:
            return t.clone()
        return t.to(device, non_blocking=non_blocking)

    return tree_map(move, node)


def leaves(node, prefix=""):
    if isinstance(node, torch.Tensor):
        yield prefix, node
    elif isinstance(node, dict):
        for k, v in node.items():
            yield from leaves(v, f"{prefix}/{k}")
    elif isinstance(node, (list, tuple)):
        for i, v in enumerate(node):
            yield from leaves(v, f"{prefix}/{i}")
