"""AdamW whose moments live in host memory and visit the device only during step()."""
import torch


class SwapAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.to_device_stream = torch.cuda.Stream()
        self.to_host_stream = torch.cuda.Stream()
        self.host_states = {}
        self.device_states = {}
        self.to_host_events = {}
        self.t = 0
        for group in self.param_groups:
            for p in group["params"]:
                self.host_states[p] = {
                    k: torch.zeros(p.shape, dtype=torch.float32, pin_memory=True)
                    for k in ("exp_avg", "exp_avg_sq")
                }

    def swap_to_device(self, p):
        event = self.to_host_events.pop(p, None)
        if event is not None:
            self.to_device_stream.wait_event(event)
        with torch.cuda.stream(self.to_device_stream):
            states = {k: v.to(p.device, non_blocking=True) for k, v in self.host_states[p].items()}
        compute = torch.cuda.current_stream()
        compute.wait_stream(self.to_device_stream)
        for s in states.values():
            s.record_stream(compute)
        self.device_states[p] = states

    def swap_to_host(self, p):
        states = self.device_states.pop(p)
        self.to_host_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.to_host_stream):
            for k, s in states.items():
                self.host_states[p][k].copy_(s, non_blocking=True)
                s.record_stream(self.to_host_stream)
            event = torch.cuda.Event()
            event.record(self.to_host_stream)
        self.to_host_events[p] = event

    def wait_all_on_host(self):
        for p, event in self.to_host_events.items():
            torch.cuda.current_stream().wait_event(event)

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.swap_to_device(p)
                st = self.device_states[p]
                st["exp_avg"].lerp_(p.grad.float(), 1 - b1)
                st["exp_avg_sq"].mul_(b2).addcmul_(p.grad.float(), p.grad.float(), value=1 - b2)
                denom = (st["exp_avg_sq"] / (1 - b2 ** self.t)).sqrt_().add_(group["eps"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.addcdiv_(st["exp_avg"], denom, value=-group["lr"] / (1 - b1 ** self.t))
                self.swap_to_host(p)
                del st
        self.wait_all_on_host()

    def export_moments(self, names):
        out = {}
        for group in self.param_groups:
            for p in group["params"]:
                out[names[p]] = {k: v.clone() for k, v in self.host_states[p].items()}
        return out


def train(model, batches, save_every, path):
    opt = SwapAdamW(model.parameters())
    names = {p: n for n, p in model.named_parameters()}
    for i, batch in enumerate(batches, 1):
        model(batch.cuda()).mean().backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if i % save_every == 0:
            torch.save({"step": i, "moments": opt.export_moments(names)}, f"{path}/optim_{i}.pt")
