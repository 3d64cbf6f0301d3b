import torch


class ModuleGroup:
    """Modules whose parameters travel together between host and device."""

    def __init__(self, modules, device, stream):
        self.modules = modules
        self.device = device
        self.stream = stream
        self.onloaded = False
        self.host = {}
        for module in modules:
            for p in module.parameters():
                p.data = p.data.pin_memory()
                self.host[p] = p.data

    def onload_(self):
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            for p, host in self.host.items():
                p.data = host.to(self.device, non_blocking=True)
                p.data.record_stream(current)
        self.onloaded = True

    def offload_(self):
        for p, host in self.host.items():
            p.data = host
        self.onloaded = False


class GroupOffloadingHook:
    def __init__(self, group):
        self.group = group
        self.next_group = None

    def pre_forward(self):
        if not self.group.onloaded:
            self.group.onload_()
            self.group.stream.synchronize()
        if self.next_group is not None:
            self.next_group.onload_()

    def post_forward(self):
        self.group.offload_()


class OffloadedTransformer:
    def __init__(self, blocks, device="cuda", blocks_per_group=1):
        self.blocks = blocks
        self.stream = torch.cuda.Stream()
        self.hooks = []
        for start in range(0, len(blocks), blocks_per_group):
            group = ModuleGroup(blocks[start:start + blocks_per_group], device, self.stream)
            self.hooks.append(GroupOffloadingHook(group))
        for a, b in zip(self.hooks, self.hooks[1:]):
            a.next_group = b.group

    def forward(self, hidden):
        for hook in self.hooks:
            hook.pre_forward()
            for block in hook.group.modules:
                hidden = hidden + block(hidden)
            hook.post_forward()
        return hidden


@torch.inference_mode()
def denoise(latents, depth=40, dim=3072, steps=30):
    blocks = [
        torch.nn.Sequential(torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 4 * dim),
                            torch.nn.GELU(), torch.nn.Linear(4 * dim, dim)).half()
        for _ in range(depth)
    ]
    transformer = OffloadedTransformer(blocks)
    x = latents.to("cuda", torch.float16)
    for i in range(steps):
        velocity = transformer.forward(x)
        x = x - velocity / steps
    return x.float().cpu()
