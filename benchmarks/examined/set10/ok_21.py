import torch


class Cache:
    """Keeps the activations of some modules; entries are copied so that later in-place ops do not show."""

    def __init__(self, device=None, dtype=None, detach=True, max_entries=64):
        self.device, self.dtype, self.detach = device, dtype, detach
        self.max_entries = max_entries
        self.entries = {}
        self._ring = {}
        self._count = {}

    def add(self, name, value):
        if isinstance(value, tuple):
            value = value[0]
        if self.detach:
            value = value.detach()
        ring = self._ring.setdefault(name, [])
        index = self._count.get(name, 0) % self.max_entries
        self._count[name] = self._count.get(name, 0) + 1
        device = self.device or value.device
        dtype = self.dtype or value.dtype
        if index < len(ring) and ring[index].shape == value.shape:
            slot = ring[index]
        else:
            slot = torch.empty(value.shape, dtype=dtype, device=device)
            if index < len(ring):
                ring[index] = slot
            else:
                ring.append(slot)
        slot.copy_(value, non_blocking=True)
        self.entries.setdefault(name, []).append(slot)

    def last(self, name):
        return self.entries[name][-1]

    def clear(self):
        self.entries.clear()


class Tracer:
    def __init__(self, model, names, **kwargs):
        self.model = model
        self.cache = Cache(**kwargs)
        self.names = set(names)
        self.handles = []

    def __enter__(self):
        for name, module in self.model.named_modules():
            if name in self.names:
                self.handles.append(
                    module.register_forward_hook(lambda m, a, out, name=name: self.cache.add(name, out))
                )
        return self.cache

    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


@torch.no_grad()
def steering_directions(model, layer, positives, negatives, device="cuda:0"):
    sums = []
    for texts in (positives, negatives):
        total = None
        for ids in texts:
            with Tracer(model, [layer], device=device, dtype=torch.float32) as cache:
                model(ids.to(device, non_blocking=True))
            hidden = cache.last(layer)[:, -1].mean(0)
            total = hidden if total is None else total + hidden
        sums.append(total / len(texts))
    direction = sums[0] - sums[1]
    norm = direction.norm().item()
    return (direction / norm).cpu().numpy(), norm
