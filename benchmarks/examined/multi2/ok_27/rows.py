import torch


class TwinRows:
    """Two gradient rows for one set of parameters; one is written by
    backward while the other may be on its way to the host."""

    def __init__(self, params):
        self.params = [p for p in params if p.requires_grad]
        self.total = sum(p.numel() for p in self.params)
        first = self.params[0]
        self.device_rows = [torch.zeros(self.total, device=first.device) for _ in range(2)]
        self.host_rows = [torch.empty(self.total, pin_memory=True) for _ in range(2)]
        self.side = 0

    def select(self, side):
        self.side = side
        row = self.device_rows[side]
        row.zero_()
        at = 0
        for p in self.params:
            p.grad = row[at:at + p.numel()].view_as(p)
            at += p.numel()

    @property
    def device(self):
        return self.device_rows[self.side]

    @property
    def host(self):
        return self.host_rows[self.side]

    def flat_params(self):
        return torch.cat([p.detach().flatten() for p in self.params])

    @torch.no_grad()
    def assign(self, flat):
        at = 0
        for p in self.params:
            p.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()
