from concurrent.futures import ThreadPoolExecutor

import torch
from safetensors import safe_open
from torch import nn


def read_shard(path, keys, dtype):
    """Runs in a worker thread; returns page-locked host tensors."""
    out = {}
    with safe_open(path, framework="pt", device="cpu") as f:
        for key in keys:
            t = f.get_tensor(key)
            if t.is_floating_point():
                t = t.to(dtype)
            out[key] = t.contiguous().pin_memory()
    return out


class ShardedLoader:
    def __init__(self, index, dtype=torch.bfloat16, device="cuda", workers=4):
        self.index = index
        self.dtype = dtype
        self.device = torch.device(device)
        self.pool = ThreadPoolExecutor(workers)

    def _set(self, model, name, value):
        *path, leaf = name.split(".")
        module = model
        for part in path:
            module = getattr(module, part)
        if leaf in module._parameters:
            module._parameters[leaf] = nn.Parameter(value, requires_grad=False)
        else:
            module._buffers[leaf] = value

    def load(self, model):
        futures = [self.pool.submit(read_shard, path, keys, self.dtype) for path, keys in self.index.items()]
        for fut in futures:
            for name, host in fut.result().items():
                self._set(model, name, host.to(self.device, non_blocking=True))
        return model


class Pipeline:
    def __init__(self, transformer, vae, loader_t, loader_v):
        self.transformer = loader_t.load(transformer).eval()
        self.vae = loader_v.load(vae).eval()

    @torch.inference_mode()
    def __call__(self, prompt_embeds, steps=28, shape=(1, 16, 64, 64)):
        latents = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        embeds = prompt_embeds.pin_memory().to("cuda", torch.bfloat16, non_blocking=True)
        sigmas = torch.linspace(1.0, 0.0, steps + 1).tolist()
        for s0, s1 in zip(sigmas[:-1], sigmas[1:]):
            t = torch.full((shape[0],), s0, device="cuda", dtype=torch.bfloat16)
            latents = latents + (s1 - s0) * self.transformer(latents, t, embeds)
        image = self.vae(latents).float().clamp_(-1, 1).add_(1).mul_(127.5).round_().to(torch.uint8)
        return image.cpu().numpy()
