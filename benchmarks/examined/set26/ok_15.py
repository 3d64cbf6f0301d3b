import torch


class DiT(torch.nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.time = torch.nn.Linear(1, dim)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(dim, dim) for _ in range(depth)])

    def forward(self, latents, timestep, context):
        h = latents + self.time(timestep)[:, None]
        att = (h @ context.transpose(1, 2)).softmax(-1) @ context
        for block in self.blocks:
            h = h + torch.nn.functional.silu(block(h + att))
        return h


class FlowScheduler:
    def __init__(self, steps):
        self.sigmas = torch.linspace(1.0, 0.0, steps + 1)

    def step(self, velocity, latents, i):
        return latents + (self.sigmas[i + 1] - self.sigmas[i]).item() * velocity


class DiTGraphRunner:
    """Step 0 runs eagerly, step 1 is captured, later steps are replayed."""

    def __init__(self, model):
        self.model = model
        self.calls = 0
        self.signature = None
        self.disabled = False
        self.graph = None

    def _capture(self, tensors):
        self.static = [t.clone() for t in tensors]
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.model(*self.static)

    def __call__(self, *tensors):
        signature = tuple((tuple(t.shape), t.dtype) for t in tensors)
        if self.signature is None:
            self.signature = signature
        elif signature != self.signature:
            self.disabled = True
        self.calls += 1
        if self.disabled or self.calls == 1:
            return self.model(*tensors)
        if self.graph is None:
            self._capture(tensors)
        for dst, src in zip(self.static, tensors):
            dst.copy_(src, non_blocking=True)
        self.graph.replay()
        return self.output


@torch.inference_mode()
def generate(prompts, dim=1024, tokens=256, steps=20):
    model = DiT(dim, 12).cuda().eval()
    runner = DiTGraphRunner(model)
    scheduler = FlowScheduler(steps)
    images = []
    for context in prompts:
        context = context.cuda()
        latents = torch.randn(context.shape[0], tokens, dim, device="cuda")
        for i in range(steps):
            timestep = torch.full((context.shape[0], 1), scheduler.sigmas[i].item(), device="cuda")
            velocity = runner(latents, timestep, context)
            latents = scheduler.step(velocity, latents, i)
        images.append(latents)
    return [im.cpu() for im in images]
