"""Streaming AudioVAE decode replayed from CUDA graphs, one graph per (batch, frames) shape."""
from collections import defaultdict

import torch


class CapturedShape:
    def __init__(self, vae, batch, frames, latent_dim, state_dim, device, pool, stream):
        self.latents = torch.zeros(batch, frames, latent_dim, device=device)
        self.state = torch.zeros(batch, state_dim, device=device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                vae(self.latents, self.state)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.audio, self.new_state = vae(self.latents, self.state)

    def run(self, latents, state):
        self.latents.copy_(latents)
        self.state.copy_(state)
        self.graph.replay()
        return self.audio, self.new_state


class VocoderSlotPool:
    def __init__(self, vae, batches, frame_counts, latent_dim, state_dim, slots, device):
        self.vae = vae
        self.device = device
        self.slot_state = torch.zeros(slots, state_dim, device=device)
        self.shapes = {}
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream(device)
        with torch.inference_mode():
            for b in sorted(batches, reverse=True):
                for f in sorted(frame_counts, reverse=True):
                    self.shapes[(b, f)] = CapturedShape(
                        vae, b, f, latent_dim, state_dim, device, pool, stream
                    )

    def step(self, slots, latents):
        idx = torch.as_tensor(slots, device=self.device)
        state = self.slot_state.index_select(0, idx)
        shape = self.shapes.get((latents.shape[0], latents.shape[1]))
        if shape is not None:
            audio, new_state = shape.run(latents, state)
        else:
            audio, new_state = self.vae(latents, state)
        self.slot_state.index_copy_(0, idx, new_state)
        return audio


class StreamingSession:
    def __init__(self, pool):
        self.pool = pool
        self.chunks = defaultdict(list)

    @torch.inference_mode()
    def push(self, slots, latents):
        audio = self.pool.step(slots, latents)
        for row, slot in enumerate(slots):
            self.chunks[slot].append(audio[row])

    @torch.inference_mode()
    def finish(self, slot):
        parts = self.chunks.pop(slot)
        self.pool.slot_state[slot].zero_()
        return torch.cat(parts, dim=-1).cpu()


def synthesize(pool, schedule):
    session = StreamingSession(pool)
    waves = {}
    for slots, latents, done in schedule:
        session.push(slots, latents.to(pool.device))
        for slot in done:
            waves[slot] = session.finish(slot)
    return waves
