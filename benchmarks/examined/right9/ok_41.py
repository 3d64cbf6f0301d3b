import torch
import triton
import triton.language as tl


@triton.jit
def _ema_kernel(avg_ptr, new_ptr, decay, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    avg = tl.load(avg_ptr + offs, mask=mask)
    new = tl.load(new_ptr + offs, mask=mask)
    tl.store(avg_ptr + offs, avg * decay + new * (1.0 - decay), mask=mask)


def ema_(avg, new, decay):
    n = avg.numel()
    _ema_kernel[(triton.cdiv(n, 1024),)](avg, new, decay, n, BLOCK=1024)


class WeightAverage:
    """Exponential moving average of parameters on a low priority stream."""

    def __init__(self, params, decay=0.999):
        self.params = list(params)
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.shadow = [p.detach().clone() for p in self.params]
        self.read_done = torch.cuda.Event()

    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for avg, p in zip(self.shadow, self.params):
                ema_(avg, p.detach(), self.decay)
        self.read_done.record(self.stream)

    def before_step(self):
        torch.cuda.current_stream().wait_event(self.read_done)

    def swap_in(self):
        torch.cuda.current_stream().wait_event(self.read_done)
        with torch.no_grad():
            for avg, p in zip(self.shadow, self.params):
                p.copy_(avg)


def main():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    ema = WeightAverage(model.parameters())
    for _ in range(200):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        ema.before_step()
        opt.step()
        ema.update()
    ema.swap_in()
    x = torch.randn(128, 256, device="cuda")
    print((model(x) - x).square().mean().item())


if __name__ == "__main__":
    main()
