"""Expert paging for a mixture-of-experts block larger than device memory."""
import torch
import torch.nn.functional as F


class ExpertPager:
    def __init__(self, experts, n_frames=2, device="cuda"):
        self.experts = [(a.pin_memory(), b.pin_memory()) for a, b in experts]
        a0, b0 = experts[0]
        self.frames = [
            (torch.empty_like(a0, device=device), torch.empty_like(b0, device=device))
            for _ in range(n_frames)
        ]
        self.io = torch.cuda.Stream(device)
        self.arrived = [torch.cuda.Event() for _ in range(n_frames)]
        self.vacant = [torch.cuda.Event() for _ in range(n_frames)]
        for ev in self.vacant:
            ev.record()

    def page_in(self, eid, turn):
        f = turn % len(self.frames)
        self.io.wait_event(self.vacant[f])
        with torch.cuda.stream(self.io):
            for dst, src in zip(self.frames[f], self.experts[eid]):
                dst.copy_(src, non_blocking=True)
            self.arrived[f].record()

    def frame(self, turn):
        f = turn % len(self.frames)
        torch.cuda.current_stream().wait_event(self.arrived[f])
        self.vacant[f].record()
        return self.frames[f]


class PagedMoE(torch.nn.Module):
    def __init__(self, pager, router):
        super().__init__()
        self.pager = pager
        self.router = router

    @torch.no_grad()
    def forward(self, x):
        choice = self.router(x).argmax(-1)
        active = torch.unique(choice).tolist()
        out = torch.zeros_like(x)
        if active:
            self.pager.page_in(active[0], 0)
        for turn, eid in enumerate(active):
            if turn + 1 < len(active):
                self.pager.page_in(active[turn + 1], turn + 1)
            w_in, w_out = self.pager.frame(turn)
            rows = (choice == eid).unsqueeze(-1)
            y = F.gelu(x @ w_in) @ w_out
            out += torch.where(rows, y, torch.zeros_like(y))
        return out


def main():
    d, h, n = 1024, 4096, 16
    pager = ExpertPager([(torch.randn(d, h), torch.randn(h, d)) for _ in range(n)])
    block = PagedMoE(pager, torch.nn.Linear(d, n).cuda())
    x = torch.randn(512, d, device="cuda")
    for _ in range(8):
        x = F.layer_norm(x + block(x), (d,))
    print(x.mean().item())


if __name__ == "__main__":
    main()
