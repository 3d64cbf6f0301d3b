import torch


class CUDAGraphWrapper:
    """Replays a captured call; tensor arguments are staged in static buffers."""

    def __init__(self, module, warmup_calls=2):
        self.module = module
        self.warmup_calls = warmup_calls
        self.calls = 0
        self.signature = None
        self.graph = None

    @staticmethod
    def _sign(args, kwargs):
        def one(v):
            return (tuple(v.shape), v.dtype) if torch.is_tensor(v) else v
        return tuple(one(a) for a in args), tuple((k, one(v)) for k, v in sorted(kwargs.items()))

    def _capture(self, args, kwargs):
        self.static_args = [a.clone() if torch.is_tensor(a) else a for a in args]
        self.static_kwargs = {k: v.clone() if torch.is_tensor(v) else v for k, v in kwargs.items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.module(*self.static_args, **self.static_kwargs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.static_out = self.module(*self.static_args, **self.static_kwargs)

    def __call__(self, *args, **kwargs):
        signature = self._sign(args, kwargs)
        self.calls += 1
        if self.calls <= self.warmup_calls:
            return self.module(*args, **kwargs)
        if self.graph is None:
            self.signature = signature
            self._capture(args, kwargs)
        elif signature != self.signature:
            return self.module(*args, **kwargs)
        for dst, src in zip(self.static_args, args):
            if torch.is_tensor(dst):
                dst.copy_(src, non_blocking=True)
        for key, dst in self.static_kwargs.items():
            if torch.is_tensor(dst):
                dst.copy_(kwargs[key], non_blocking=True)
        self.graph.replay()
        return tuple(o.clone() for o in self.static_out)


class FlowNetwork(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inp = torch.nn.Linear(dim, dim)
        self.cond = torch.nn.Linear(dim, dim)

    def forward(self, latent, timestep, rope=None, mask=None):
        h = self.inp(latent * rope) + timestep
        h = torch.where(mask, h, torch.zeros_like(h))
        return self.cond(h), h.mean(dim=1)


@torch.no_grad()
def predict(frames, dim=1024, steps=4):
    net = CUDAGraphWrapper(FlowNetwork(dim).cuda())
    kept = []
    for frame in frames:
        latent = frame.cuda()
        rope = torch.randn(latent.shape[1], dim, device="cuda")
        for i in range(steps):
            timestep = torch.full((1,), 1.0 - i / steps, device="cuda")
            mask = torch.rand(latent.shape, device="cuda") > 0.1
            flow, summary = net(latent, timestep, rope=rope, mask=mask)
            latent = latent - flow / steps
            kept.append(summary)
    return torch.stack(kept).cpu()
