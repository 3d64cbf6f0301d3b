"""Adam whose parameter groups are stepped on separate streams."""
import torch


class StreamedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, num_streams=3):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))
        first = self.param_groups[0]["params"][0]
        self.device = first.device
        self.streams = [torch.cuda.Stream(self.device) for _ in range(num_streams)]

    def _init_missing(self, params):
        for p in params:
            state = self.state[p]
            if not state:
                state["step"] = 0
                state["exp_avg"] = torch.zeros_like(p)
                state["exp_avg_sq"] = torch.zeros_like(p)

    def _step_group(self, group, params):
        self._init_missing(params)
        grads = [p.grad for p in params]
        m = [self.state[p]["exp_avg"] for p in params]
        v = [self.state[p]["exp_avg_sq"] for p in params]
        for p in params:
            self.state[p]["step"] += 1
        b1, b2 = group["betas"]
        torch._foreach_lerp_(m, grads, 1 - b1)
        torch._foreach_mul_(v, b2)
        torch._foreach_addcmul_(v, grads, grads, value=1 - b2)
        for p, mi, vi in zip(params, m, v):
            t = self.state[p]["step"]
            denom = (vi / (1 - b2 ** t)).sqrt_().add_(group["eps"])
            p.addcdiv_(mi, denom, value=-group["lr"] / (1 - b1 ** t))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        caller = torch.cuda.current_stream(self.device)
        used = set()
        try:
            for i, group in enumerate(self.param_groups):
                params = [p for p in group["params"] if p.grad is not None]
                if not params:
                    continue
                stream = self.streams[i % len(self.streams)]
                stream.wait_stream(caller)
                used.add(stream)
                with torch.cuda.stream(stream):
                    self._step_group(group, params)
        finally:
            for stream in used:
                caller.wait_stream(stream)
        return loss


def build(model, lr):
    decay, rest, head = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head"):
            head.append(p)
        elif p.ndim > 1:
            decay.append(p)
        else:
            rest.append(p)
    groups = [{"params": g, "lr": lr * s} for g, s in ((decay, 1.0), (rest, 2.0), (head, 10.0)) if g]
    return StreamedAdam(groups, lr=lr)


def fit(model, batches, lr=3e-4):
    opt = build(model, lr)
    for x, y in batches:
        opt.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
    return [group["lr"] for group in opt.param_groups]
