import torch


class GradWatch:
    """Norms of the gradients by layer."""

    def __init__(self, model, bag):
        self.named = [(n, p) for n, p in model.named_parameters() if p.dim() > 1]
        self.bag = bag

    def after_backward(self):
        norms = torch.stack([p.grad.norm() for _, p in self.named])
        self.bag.put(grad_norms=norms, grad_max=norms.max())


class ActivationWatch:
    """Share of dead units behind every activation module."""

    def __init__(self, model, bag, kind=torch.nn.ReLU):
        self.bag = bag
        for name, m in model.named_modules():
            if isinstance(m, kind):
                m.register_forward_hook(self._hook(f"dead_{name}"))

    def _hook(self, key):
        def hook(module, args, out):
            self.bag.put(**{key: (out == 0).float().mean()})
        return hook

    def after_backward(self):
        pass
