import re
from contextlib import contextmanager

import torch


class LayerwiseOffloadManager:
    """Keeps at most two transformer blocks on the GPU and streams the rest from pinned memory."""

    def __init__(self, model, module_list_attr, num_layers):
        self.model = model
        self.num_layers = num_layers
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.copy_stream = torch.cuda.Stream()
        self._name_re = re.compile(rf"(^|\.){re.escape(module_list_attr)}\.(\d+)(\.|$)")
        self._cpu_weights = {}
        self._gpu_layers = set()
        self._params = dict(model.named_parameters())
        self._initialize()

    def _layer_idx(self, name):
        m = self._name_re.search(name)
        return int(m.group(2)) if m else None

    def _placeholder(self, t):
        return torch.empty((0,) * max(t.ndim, 1), device=self.device, dtype=t.dtype)

    def _initialize(self):
        for name, p in self._params.items():
            idx = self._layer_idx(name)
            if idx is None:
                continue
            cpu = p.detach().to("cpu").pin_memory()
            self._cpu_weights.setdefault(idx, {})[name] = cpu
            p.data = self._placeholder(cpu).to(self.device)
        self.prefetch_layer(0)
        torch.cuda.current_stream().wait_stream(self.copy_stream)

    def prefetch_layer(self, idx):
        if idx in self._gpu_layers or idx not in self._cpu_weights:
            return
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            for name, cpu in self._cpu_weights[idx].items():
                gpu = torch.empty(cpu.shape, dtype=cpu.dtype, device=self.device)
                gpu.copy_(cpu, non_blocking=True)
                self._params[name].data = gpu
        self._gpu_layers.add(idx)

    def release_layer(self, idx):
        if idx not in self._gpu_layers:
            return
        self._gpu_layers.discard(idx)
        for name, cpu in self._cpu_weights[idx].items():
            self._params[name].data = self._placeholder(cpu)

    @contextmanager
    def layer_scope(self, idx):
        if idx not in self._gpu_layers:
            self.prefetch_layer(idx)
            torch.cuda.current_stream().wait_stream(self.copy_stream)
        self.prefetch_layer((idx + 1) % self.num_layers)
        try:
            yield
        finally:
            torch.cuda.current_stream().wait_stream(self.copy_stream)
            self.release_layer(idx)


@torch.no_grad()
def denoise(model, manager, latents, timesteps):
    for t in timesteps:
        h = model.embed(latents, t)
        for idx, block in enumerate(model.blocks):
            with manager.layer_scope(idx):
                h = block(h)
        latents = latents - model.head(h)
    return latents
