import torch
from torch import nn


class Tail(nn.Module):
    """Data-dependent part that stays eager."""

    def __init__(self, dim):
        super().__init__()
        self.out = nn.Linear(dim, 1)

    def forward(self, h):
        keep = h.norm(dim=-1) > h.norm(dim=-1).median()
        return self.out(h[keep]).mean()


class Feeder:
    def __init__(self, batch, dim, steps):
        self.steps = steps
        self.host = torch.empty(2, batch, dim, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.done = [torch.cuda.Event(), torch.cuda.Event()]

    def __iter__(self):
        for i in range(self.steps):
            k = i % 2
            self.done[k].synchronize()
            self.host[k].normal_()
            with torch.cuda.stream(self.stream):
                x = self.host[k].to("cuda", non_blocking=True)
                self.done[k].record()
            current = torch.cuda.current_stream()
            current.wait_event(self.done[k])
            x.record_stream(current)
            yield x


def main():
    body = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    tail = Tail(256).cuda()
    params = list(body.parameters()) + list(tail.parameters())
    opt = torch.optim.SGD(params, lr=0.01)
    sample = torch.randn(128, 256, device="cuda")
    graphed = torch.cuda.make_graphed_callables(body, (sample,))
    losses = []
    for x in Feeder(128, 256, 200):
        opt.zero_grad(set_to_none=True)
        loss = tail(graphed(x)).square()
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
