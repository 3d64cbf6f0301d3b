import torch


class OffloadedAdam:
    def __init__(self, params, lr=1e-3):
        self.params = list(params)
        self.master = [p.detach().float().cpu().clone() for p in self.params]
        self.grads = [torch.zeros(m.shape, pin_memory=True) for m in self.master]
        for m, g in zip(self.master, self.grads):
            m.grad = g
        self.opt = torch.optim.Adam(self.master, lr=lr)
        self.stream = torch.cuda.Stream()
        for i, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(self._hook(i))

    def _hook(self, i):
        def run(param):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.grads[i].copy_(param.grad, non_blocking=True)
            param.grad.record_stream(self.stream)
            param.grad = None

        return run

    def step(self):
        self.opt.step()
        with torch.no_grad():
            for p, m in zip(self.params, self.master):
                p.copy_(m)


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    opt = OffloadedAdam(model.parameters())
    for _ in range(10):
        x = torch.randn(64, 2048, device="cuda")
        model(x).square().mean().backward()
        opt.step()


if __name__ == "__main__":
    main()
