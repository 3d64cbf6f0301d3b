import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class HostPages:
    def __init__(self):
        self.spare = {}

    def pop(self, shape, dtype):
        stack = self.spare.setdefault((tuple(shape), dtype), [])
        if stack:
            return stack.pop()
        return torch.empty(shape, dtype=dtype, pin_memory=True)

    def push(self, page):
        self.spare[tuple(page.shape), page.dtype].append(page)


class Parked:
    def __init__(self, page, device):
        self.page = page
        self.device = device


class Offload:
    def __init__(self, floor=1 << 14):
        self.floor = floor
        self.pages = HostPages()
        self.stream = torch.cuda.Stream()

    def pack(self, t):
        if not t.is_cuda or t.numel() < self.floor or isinstance(t, nn.Parameter) or t._base is not None:
            return t
        page = self.pages.pop(t.shape, t.dtype)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            page.copy_(t.detach(), non_blocking=True)
        t.record_stream(self.stream)
        return Parked(page, t.device)

    def unpack(self, held):
        if not isinstance(held, Parked):
            return held
        with torch.cuda.stream(self.stream):
            back = held.page.to(held.device, non_blocking=True)
        self.pages.push(held.page)
        now = torch.cuda.current_stream()
        now.wait_stream(self.stream)
        back.record_stream(now)
        return back

    def __enter__(self):
        self.hooks = saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()
        return self

    def __exit__(self, *exc):
        self.hooks.__exit__(*exc)


def make_net(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers).cuda()


def main():
    net = make_net(512, 8)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    offload = Offload()
    for step in range(20):
        x = torch.randn(256, 512, device="cuda")
        with offload:
            loss = (net(x) - x.sin()).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
