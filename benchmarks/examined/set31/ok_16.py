"""Exponential moving average of parameters parked in page locked memory."""
import torch


class ParkedEMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.parked = torch.cuda.Event()
        self.host = [torch.empty(p.shape, dtype=p.dtype, pin_memory=True) for p in self.params]
        for h, p in zip(self.host, self.params):
            h.copy_(p.detach())

    @torch.no_grad()
    def step(self):
        main = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            shadow = [h.to(self.device, non_blocking=True) for h in self.host]
            torch._foreach_lerp_(shadow, [p.detach() for p in self.params], 1 - self.decay)
            for h, s in zip(self.host, shadow):
                h.copy_(s, non_blocking=True)
            self.parked.record(self.stream)

    def before_optimizer(self):
        torch.cuda.current_stream(self.device).wait_event(self.parked)

    def state_dict(self):
        self.parked.synchronize()
        return {"decay": self.decay, "shadow": [h.clone() for h in self.host]}


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), fused=True)
        self.ema = ParkedEMA(model)
        self.opt.register_step_pre_hook(lambda *_: self.ema.before_optimizer())

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.opt.step()
            self.opt.zero_grad(set_to_none=True)
            self.ema.step()
            if (i + 1) % 100 == 0:
                torch.save(self.ema.state_dict(), f"ema_{i + 1}.pt")


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    Trainer(model).fit([(torch.randn(16, 2048), torch.randn(16, 2048)) for _ in range(200)])


if __name__ == "__main__":
    main()
