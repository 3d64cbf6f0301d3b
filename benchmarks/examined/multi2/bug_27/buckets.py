import torch


class FlatBucket:
    """Parameters of one group with their gradients laid out in one row."""

    def __init__(self, name, params):
        self.name = name
        self.params = list(params)
        total = sum(p.numel() for p in self.params)
        first = self.params[0]
        self.row = torch.zeros(total, dtype=first.dtype, device=first.device)
        self.master = torch.cat([p.detach().float().flatten() for p in self.params]).cpu()
        at = 0
        for p in self.params:
            p.grad = self.row[at:at + p.numel()].view_as(p)
            at += p.numel()

    def __len__(self):
        return self.row.numel()

    def clear(self):
        self.row.zero_()

    @torch.no_grad()
    def publish(self):
        at = 0
        for p in self.params:
            piece = self.master[at:at + p.numel()].view_as(p)
            p.copy_(piece)
            at += p.numel()


def make_buckets(model, per=2):
    groups, current = [], []
    for name, child in model.named_children():
        params = [p for p in child.parameters() if p.requires_grad]
        if not params:
            continue
        current.append((name, params))
        if len(current) == per:
            groups.append(current)
            current = []
    if current:
        groups.append(current)
    return [
        FlatBucket("+".join(n for n, _ in g), [p for _, ps in g for p in ps])
        for g in groups
    ]
