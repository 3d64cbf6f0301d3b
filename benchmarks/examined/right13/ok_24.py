"""Adam on the host: gradients go down and weights come up on one transfer stream."""
import torch


class HostAdam:
    def __init__(self, model, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.device = self.params[0].device
        self.transfer = torch.cuda.Stream(self.device)
        total = sum(p.numel() for p in self.params)
        self.grads = torch.zeros(total, pin_memory=True)
        self.master = torch.empty(total, pin_memory=True)
        self.exp_avg = torch.zeros(total)
        self.exp_avg_sq = torch.zeros(total)
        self.spans, start = [], 0
        for p in self.params:
            span = slice(start, start + p.numel())
            self.master[span].copy_(p.detach().reshape(-1))
            p.detach().record_stream(self.transfer)
            self.spans.append(span)
            start = span.stop
        self.steps = 0
        self.uploaded = torch.cuda.Event()

    def _download(self):
        self.transfer.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.transfer):
            for p, span in zip(self.params, self.spans):
                if p.grad is None:
                    continue
                self.grads[span].copy_(p.grad.reshape(-1), non_blocking=True)
            arrived = self.transfer.record_event()
        arrived.synchronize()
        for p, span in zip(self.params, self.spans):
            if p.grad is None:
                self.grads[span].zero_()
            p.grad = None

    def _update(self):
        self.steps += 1
        b1, b2 = self.betas
        self.exp_avg.lerp_(self.grads, 1 - b1)
        self.exp_avg_sq.mul_(b2).addcmul_(self.grads, self.grads, value=1 - b2)
        denom = (self.exp_avg_sq / (1 - b2 ** self.steps)).sqrt_().add_(self.eps)
        self.master.addcdiv_(self.exp_avg, denom, value=-self.lr / (1 - b1 ** self.steps))

    @torch.no_grad()
    def step(self):
        self._download()
        self._update()
        with torch.cuda.stream(self.transfer):
            for p, span in zip(self.params, self.spans):
                p.copy_(self.master[span].view_as(p), non_blocking=True)
            self.uploaded.record()
        torch.cuda.current_stream(self.device).wait_event(self.uploaded)


def train(model, batches, loss_fn):
    opt = HostAdam(model)
    losses = []
    for x, y in batches:
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist() if losses else []
