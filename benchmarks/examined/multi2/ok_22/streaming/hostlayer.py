import torch


class HostLayer:
    """A layer's parameters, flattened into page-locked memory."""

    def __init__(self, layer, dtype):
        self.params = list(layer.parameters())
        parts = [p.detach().to(dtype).reshape(-1).cpu() for p in self.params]
        self.host = torch.cat(parts).pin_memory()
        self.shapes = [p.shape for p in self.params]
        for p in self.params:
            p.requires_grad_(False)
            p.data = torch.empty(0, dtype=dtype, device="cuda")

    def bind(self, flat):
        at = 0
        for p, shape in zip(self.params, self.shapes):
            n = shape.numel()
            p.data = flat[at:at + n].view(shape)
            at += n

    def unbind(self):
        for p in self.params:
            p.data = p.data.new_empty(0)

    @property
    def nbytes(self):
        return self.host.numel() * self.host.element_size()

    def __len__(self):
        return len(self.params)


def total_bytes(hosts):
    return sum(h.nbytes for h in hosts)
