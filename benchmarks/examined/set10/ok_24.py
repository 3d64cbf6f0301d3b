import torch
from torch import nn


class LayerwiseOffloadHook:
    """Keeps the weights of one block on pinned host memory between its uses."""

    def __init__(self, block, copy_stream, device):
        self.block = block
        self.copy_stream = copy_stream
        self.device = device
        self.next_hook = None
        self.host = {}
        self.prefetched = None
        self.prefetch_done = None
        for name, param in block.named_parameters():
            self.host[name] = param.data.cpu().pin_memory()
            param.data = torch.empty((), device=device, dtype=param.dtype)

    def prefetch(self):
        if self.prefetched is not None:
            return
        current = torch.cuda.current_stream(self.device)
        gpu = {n: torch.empty(h.shape, dtype=h.dtype, device=self.device) for n, h in self.host.items()}
        self.copy_stream.wait_stream(current)
        with torch.cuda.stream(self.copy_stream):
            for name, host in self.host.items():
                gpu[name].copy_(host, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.copy_stream)
        self.prefetched, self.prefetch_done = gpu, event

    def pre_forward(self, module, args):
        self.prefetch()
        torch.cuda.current_stream(self.device).wait_event(self.prefetch_done)
        for name, param in self.block.named_parameters():
            param.data = self.prefetched[name]
        self.prefetched = self.prefetch_done = None
        if self.next_hook is not None:
            self.next_hook.prefetch()

    def post_forward(self, module, args, output):
        for _, param in self.block.named_parameters():
            param.data = torch.empty((), device=self.device, dtype=param.dtype)
        return output


def apply_layerwise_offload(blocks: nn.ModuleList, device="cuda"):
    device = torch.device(device)
    copy_stream = torch.cuda.Stream(device=device)
    hooks = [LayerwiseOffloadHook(b, copy_stream, device) for b in blocks]
    for hook, following in zip(hooks, hooks[1:]):
        hook.next_hook = following
    for block, hook in zip(blocks, hooks):
        block.register_forward_pre_hook(hook.pre_forward)
        block.register_forward_hook(hook.post_forward)
    return hooks


class DenoisingPipeline:
    def __init__(self, transformer, scheduler, device="cuda"):
        self.transformer = transformer
        self.scheduler = scheduler
        self.device = device
        apply_layerwise_offload(transformer.blocks, device)

    @torch.inference_mode()
    def __call__(self, latents, cond, steps):
        latents = latents.to(self.device)
        for t in self.scheduler.timesteps(steps):
            noise = self.transformer(latents, t, cond)
            latents = self.scheduler.step(noise, t, latents)
        return latents.float().cpu()
