import torch


class PagedAdam:
    """Adam whose moments live on the host and are streamed through two device pages."""

    def __init__(self, groups, lr=1e-3, beta1=0.9, beta2=0.95):
        self.groups = groups
        self.lr, self.beta1, self.beta2, self.t = lr, beta1, beta2, 0
        size = max(sum(p.numel() for p in g) for g in groups)
        self.host = [torch.zeros(2, sum(p.numel() for p in g), pin_memory=True) for g in groups]
        self.pages = [torch.zeros(2, size, device="cuda") for _ in range(2)]
        self.h2d, self.d2h = torch.cuda.Stream(), torch.cuda.Stream()
        for s in (self.h2d, self.d2h):
            s.wait_stream(torch.cuda.current_stream())
        self.paged_out = [None, None]

    def _page_in(self, g):
        n = self.host[g].shape[1]
        page = self.pages[g % 2]
        with torch.cuda.stream(self.h2d):
            if self.paged_out[g % 2] is not None:
                self.h2d.wait_event(self.paged_out[g % 2])
            page[0, :n].copy_(self.host[g][0], non_blocking=True)
            page[1, :n].copy_(self.host[g][1], non_blocking=True)
            return self.h2d.record_event()

    def _page_out(self, g):
        n = self.host[g].shape[1]
        page = self.pages[g % 2]
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            self.host[g][0].copy_(page[0, :n], non_blocking=True)
            self.host[g][1].copy_(page[1, :n], non_blocking=True)
            self.paged_out[g % 2] = self.d2h.record_event()

    @torch.no_grad()
    def step(self):
        self.t += 1
        self.h2d.wait_stream(self.d2h)
        ready = self._page_in(0)
        for g, params in enumerate(self.groups):
            torch.cuda.current_stream().wait_event(ready)
            if g + 1 < len(self.groups):
                ready = self._page_in(g + 1)
            offset, page = 0, self.pages[g % 2]
            for p in params:
                m = page[0, offset:offset + p.numel()].view_as(p)
                v = page[1, offset:offset + p.numel()].view_as(p)
                m.lerp_(p.grad, 1 - self.beta1)
                v.mul_(self.beta2).addcmul_(p.grad, p.grad, value=1 - self.beta2)
                p.addcdiv_(m, v.sqrt().add_(1e-8), value=-self.lr / (1 - self.beta1 ** self.t))
                offset += p.numel()
            self._page_out(g)


def main():
    layers = [torch.nn.Linear(1024, 1024).cuda() for _ in range(7)]
    net = torch.nn.Sequential(*layers)
    opt = PagedAdam([list(l.parameters()) for l in layers])
    for _ in range(20):
        net(torch.randn(32, 1024, device="cuda")).square().mean().backward()
        opt.step()
        net.zero_grad()
    torch.cuda.synchronize()
    print([h[1].mean().item() for h in opt.host])


if __name__ == "__main__":
    main()
