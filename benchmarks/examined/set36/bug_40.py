"""Speech server: render requests run in a thread pool and share one captured decoder."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class Decoder(nn.Module):
    def __init__(self, dim=1024, layers=12, samples=1920):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(layers)
        )
        self.vocoder = nn.Linear(dim, samples)

    def forward(self, codes, speaker):
        x = codes + speaker.unsqueeze(1)
        for block in self.blocks:
            x = x + block(x)
        return torch.tanh(self.vocoder(x))


class GraphedDecoder:
    def __init__(self, decoder: Decoder, frames, dim, device="cuda"):
        self.lock = threading.Lock()
        self.codes = torch.zeros(1, frames, dim, device=device)
        self.speaker = torch.zeros(1, dim, device=device)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                decoder(self.codes, self.speaker)
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.audio = decoder(self.codes, self.speaker)
        torch.cuda.synchronize()

    def __call__(self, codes, speaker):
        with self.lock:
            self.codes.copy_(codes, non_blocking=True)
            self.speaker.copy_(speaker, non_blocking=True)
            self.graph.replay()
            return self.audio.clone()


class Voice:
    def __init__(self, dim, seed):
        g = torch.Generator().manual_seed(seed)
        self.embedding = torch.randn(1, dim, generator=g).pin_memory()


class Renderer:
    """One instance for the process; `render` is called from the pool threads."""

    def __init__(self, frames=64, dim=1024, workers=4):
        self.frames = frames
        self.dim = dim
        self.decoder = GraphedDecoder(Decoder(dim).cuda().eval(), frames, dim)
        self.table = torch.randn(4096, dim, device="cuda")
        torch.cuda.synchronize()
        self.local = threading.local()
        self.pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="gpu")

    def _stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = torch.cuda.Stream()
        return self.local.stream

    def _render_chunk(self, tokens, voice):
        host = torch.tensor(tokens).pin_memory()
        ids = host.to("cuda", non_blocking=True)
        codes = self.table[ids].unsqueeze(0)
        return self.decoder(codes, voice.embedding)

    @torch.inference_mode()
    def render(self, tokens, voice):
        stream = self._stream()
        pieces = []
        with torch.cuda.stream(stream):
            for start in range(0, len(tokens) - self.frames + 1, self.frames):
                pieces.append(self._render_chunk(tokens[start:start + self.frames], voice))
            audio = torch.cat([p.reshape(-1) for p in pieces])
            host = torch.empty(audio.shape, pin_memory=True)
            host.copy_(audio, non_blocking=True)
        stream.synchronize()
        return host

    def submit(self, tokens, voice):
        return self.pool.submit(self.render, tokens, voice)


def main():
    renderer = Renderer()
    voices = [Voice(1024, seed) for seed in range(8)]
    jobs = []
    for i in range(64):
        tokens = [(7 * i + k) % 4096 for k in range(512)]
        jobs.append(renderer.submit(tokens, voices[i % len(voices)]))
    print([tuple(j.result().shape) for j in jobs][:2])
    renderer.pool.shutdown()


if __name__ == "__main__":
    main()
