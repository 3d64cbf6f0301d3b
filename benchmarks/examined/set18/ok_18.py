"""Graph runner for diffusion transformers: shape-keyed entries, captured on a dedicated stream."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    static_leaves: list
    output: torch.Tensor


class CudaGraphRunner:
    """Replays on the stream of the caller; entries own their static buffers."""

    def __init__(self, transformer, device, max_entries=4):
        self.transformer = transformer
        self.device = device
        self.max_entries = max_entries
        self.capture_stream = torch.cuda.Stream(device=device)
        self.entries = {}

    @staticmethod
    def _flatten(kwargs):
        return [kwargs[k] for k in sorted(kwargs) if isinstance(kwargs[k], torch.Tensor)]

    @staticmethod
    def _key(kwargs):
        return tuple((k, tuple(v.shape), v.dtype) for k, v in sorted(kwargs.items()))

    def _capture(self, kwargs):
        static = {k: v.clone() for k, v in kwargs.items()}
        self.capture_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.capture_stream):
            for _ in range(2):
                self.transformer(**static)
        torch.cuda.current_stream(self.device).wait_stream(self.capture_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.capture_stream):
            output = self.transformer(**static)
        return Entry(graph, self._flatten(static), output)

    def __call__(self, **kwargs):
        key = self._key(kwargs)
        entry = self.entries.get(key)
        if entry is None:
            if len(self.entries) >= self.max_entries:
                return self.transformer(**kwargs)
            entry = self.entries[key] = self._capture(kwargs)
        for buf, live in zip(entry.static_leaves, self._flatten(kwargs)):
            buf.copy_(live, non_blocking=True)
        entry.graph.replay()
        return entry.output.clone()


class DiT(nn.Module):
    def __init__(self, dim, depth, heads, text_dim):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(256, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.text = nn.Linear(text_dim, dim)
        self.blocks = nn.ModuleList(
            nn.TransformerDecoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.out = nn.Linear(dim, dim)
        self.register_buffer("freqs", torch.exp(-torch.arange(128) * 0.07), persistent=False)

    def forward(self, latents, timestep, encoder_hidden_states):
        angles = timestep[:, None] * self.freqs
        emb = self.time(torch.cat([angles.cos(), angles.sin()], dim=-1))
        x = latents + emb[:, None]
        memory = self.text(encoder_hidden_states)
        for block in self.blocks:
            x = block(x, memory)
        return self.out(x)


class Pipeline:
    def __init__(self, dit, device, guidance=5.0):
        self.device = device
        self.guidance = guidance
        self.runner = CudaGraphRunner(dit.to(device).eval(), device)

    @torch.no_grad()
    def denoise(self, text, null_text, steps=30, tokens=1024, dim=1024, seed=0):
        generator = torch.Generator(device=self.device).manual_seed(seed)
        latents = torch.randn(1, tokens, dim, device=self.device, generator=generator)
        sigmas = torch.linspace(1.0, 0.0, steps + 1)
        for i in range(steps):
            timestep = torch.full((1,), float(sigmas[i]) * 1000.0, device=self.device)
            cond = self.runner(latents=latents, timestep=timestep, encoder_hidden_states=text)
            uncond = self.runner(latents=latents, timestep=timestep, encoder_hidden_states=null_text)
            velocity = uncond + self.guidance * (cond - uncond)
            latents = latents + float(sigmas[i + 1] - sigmas[i]) * velocity
        return latents


def generate(dit, prompts, encode, vae_decode):
    device = torch.device("cuda", 0)
    pipeline = Pipeline(dit, device)
    null_text = encode("").to(device)
    return [vae_decode(pipeline.denoise(encode(p).to(device), null_text)).cpu() for p in prompts]
