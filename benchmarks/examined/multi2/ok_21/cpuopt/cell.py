import torch


class HostCell:
    """The host side of one parameter: master weight, momentum, gradient."""

    def __init__(self, param, lr, beta):
        self.param = param
        self.lr, self.beta = lr, beta
        self.weight = param.detach().cpu().pin_memory()
        self.grad = torch.empty_like(self.weight, pin_memory=True)
        self.momentum = torch.zeros_like(self.weight, pin_memory=False)
        self.fetched = torch.cuda.Event()
        self.job = None

    def fetch(self, lane):
        """Bring the device gradient over and let go of it."""
        grad = self.param.grad
        with torch.cuda.stream(lane):
            self.grad.copy_(grad, non_blocking=True)
        grad.record_stream(lane)
        self.fetched.record(lane)
        self.param.grad = None

    @torch.no_grad()
    def update(self):
        self.fetched.synchronize()
        self.momentum.mul_(self.beta).add_(self.grad)
        self.weight.add_(self.momentum, alpha=-self.lr)

    @torch.no_grad()
    def store(self):
        self.param.copy_(self.weight, non_blocking=True)

    @property
    def host_bytes(self):
        return 3 * self.weight.numel() * self.weight.element_size()

    def __repr__(self):
        return f"HostCell({tuple(self.weight.shape)}, lr={self.lr}, beta={self.beta})"
