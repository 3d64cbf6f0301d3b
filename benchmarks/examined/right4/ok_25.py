import torch


class GradSlot:
    def __init__(self, numel):
        self.host = torch.empty(numel, pin_memory=True)
        self.event = torch.cuda.Event()
        self.owner = None


class HostParam:
    def __init__(self, p):
        self.p = p
        self.master = p.detach().cpu().clone().pin_memory()

    def update(self, grad, lr):
        self.master.view(-1).add_(grad, alpha=-lr)


class BackwardOptimizer:
    def __init__(self, model, lr):
        self.lr = lr
        params = list(model.parameters())
        self.state = {p: HostParam(p) for p in params}
        width = max(p.numel() for p in params)
        self.slots = [GradSlot(width) for _ in range(2)]
        self.cursor = 0
        self.copies = torch.cuda.Stream()
        self.touched = []
        for p in params:
            p.register_post_accumulate_grad_hook(self._hook)

    def _settle(self, slot):
        if slot.owner is None:
            return
        slot.event.synchronize()
        owner, slot.owner = slot.owner, None
        owner.update(slot.host[: owner.p.numel()], self.lr)
        self.touched.append(owner)

    def _hook(self, p):
        slot = self.slots[self.cursor % 2]
        self.cursor += 1
        self._settle(slot)
        grad = p.grad.reshape(-1)
        self.copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copies):
            slot.host[: grad.numel()].copy_(grad, non_blocking=True)
            slot.event.record()
        grad.record_stream(self.copies)
        slot.owner = self.state[p]
        p.grad = None

    def flush(self):
        for slot in self.slots:
            self._settle(slot)
        for owner in self.touched:
            owner.p.data.copy_(owner.master, non_blocking=True)
        uploaded = torch.cuda.current_stream().record_event()
        self.touched.clear()
        return uploaded


def train(model, loader, lr=1e-2):
    opt = BackwardOptimizer(model, lr)
    uploaded = None
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
        if uploaded is not None:
            uploaded.synchronize()
        loss.backward()
        uploaded = opt.flush()
    torch.cuda.synchronize()
