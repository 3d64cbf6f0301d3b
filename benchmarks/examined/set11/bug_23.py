"""Layer-wise offload of a diffusion transformer: block ``i`` runs while block ``i + 1`` is copied in."""
from typing import Any, Dict, List, Optional

import torch
from torch import nn


class LayerwiseOffloadHook:
    """Owns the host copy of one block; ``next_hook`` is the block to prefetch while this one computes."""

    def __init__(self, block: nn.Module, device: torch.device, copy_stream: torch.cuda.Stream):
        self.block = block
        self.device = device
        self.copy_stream = copy_stream
        self.next_hook: Optional["LayerwiseOffloadHook"] = None
        self.parameters: Dict[str, nn.Parameter] = dict(block.named_parameters())
        self.cpu_weights: Dict[str, torch.Tensor] = {}
        self._prefetch_done: Optional[torch.cuda.Event] = None
        for name, param in self.parameters.items():
            self.cpu_weights[name] = param.data.to("cpu").pin_memory()
            param.data = torch.empty((0,), dtype=param.dtype, device=device)

    @torch.no_grad()
    def prefetch_layer(self, non_blocking: bool = True) -> None:
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for name, param in self.parameters.items():
                weight = torch.empty_like(self.cpu_weights[name], device=self.device)
                weight.copy_(self.cpu_weights[name], non_blocking=non_blocking)
                param.data = weight
            self._prefetch_done = self.copy_stream.record_event()

    @torch.no_grad()
    def offload_layer(self) -> None:
        if self._prefetch_done is not None:
            torch.cuda.current_stream().wait_event(self._prefetch_done)
        self._prefetch_done = None
        for param in self.parameters.values():
            param.data = torch.empty((0,), dtype=param.dtype, device=self.device)

    def pre_forward(self, module: nn.Module, args: Any) -> None:
        if self._prefetch_done is None:
            self.prefetch_layer(non_blocking=False)
        if self.next_hook is not None:
            self.next_hook.prefetch_layer()

    def post_forward(self, module: nn.Module, args: Any, output: Any) -> None:
        self.offload_layer()


def apply_layerwise_offload(blocks: nn.ModuleList, device: torch.device) -> List[LayerwiseOffloadHook]:
    copy_stream = torch.cuda.Stream(device)
    hooks = [LayerwiseOffloadHook(block, device, copy_stream) for block in blocks]
    for i, hook in enumerate(hooks):
        hook.next_hook = hooks[i + 1] if i + 1 < len(hooks) else None
        hook.block.register_forward_pre_hook(hook.pre_forward)
        hook.block.register_forward_hook(hook.post_forward)
    hooks[0].prefetch_layer(non_blocking=True)
    torch.cuda.synchronize(device)
    return hooks


class DenoisingLoop:
    def __init__(self, transformer: nn.Module, scheduler, device: torch.device):
        self.transformer = transformer
        self.scheduler = scheduler
        self.hooks = apply_layerwise_offload(transformer.blocks, device)

    @torch.no_grad()
    def __call__(self, latents: torch.Tensor, prompt_embeds: torch.Tensor) -> torch.Tensor:
        for t in self.scheduler.timesteps:
            hidden = self.transformer.embed(latents, t)
            for block in self.transformer.blocks:
                hidden = block(hidden, prompt_embeds)
            latents = self.scheduler.step(self.transformer.unembed(hidden), t, latents)
        return latents
