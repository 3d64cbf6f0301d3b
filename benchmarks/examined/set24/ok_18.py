import torch
import torch.nn as nn


class PinnedOffload:
    """Module weights rest in pinned host memory and visit the GPU on demand."""

    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.host = {}
        self.arrivals = {}

    def adopt(self, module):
        self.host[module] = [p.detach().cpu().pin_memory() for p in module.parameters()]
        for p, h in zip(module.parameters(), self.host[module]):
            p.data = h
        for b in module.buffers():
            b.data = b.data.to(self.device)

    def prefetch(self, module):
        if module in self.arrivals:
            return
        with torch.cuda.stream(self.stream):
            copies = [h.to(self.device, non_blocking=True) for h in self.host[module]]
            event = torch.cuda.Event()
            event.record(self.stream)
        self.arrivals[module] = (copies, event)

    def acquire(self, module):
        self.prefetch(module)
        copies, event = self.arrivals[module]
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        for p, c in zip(module.parameters(), copies):
            c.record_stream(current)
            p.data = c

    def release(self, module):
        self.arrivals.pop(module)
        for p, h in zip(module.parameters(), self.host[module]):
            p.data = h


class VideoPipeline:
    def __init__(self, dit: nn.Module, vae: nn.Module, audio_vae: nn.Module, device="cuda"):
        self.device = torch.device(device)
        self.offload = PinnedOffload(self.device)
        self.dit = dit.to(self.device)
        self.vae, self.audio_vae = vae, audio_vae
        for m in (self.vae, self.audio_vae):
            self.offload.adopt(m)

    def _denoise(self, video, audio, sigmas):
        for i, (s, s_next) in enumerate(zip(sigmas[:-1], sigmas[1:])):
            if i == max(len(sigmas) - 3, 0):
                self.offload.prefetch(self.vae)
                self.offload.prefetch(self.audio_vae)
            dv, da = self.dit(video, audio, s)
            video = video + dv * (s_next - s)
            audio = audio + da * (s_next - s)
        return video, audio

    def _decode_tiles(self, module, latents, tile):
        chunks = []
        for start in range(0, latents.shape[2], tile):
            frames = module(latents[:, :, start : start + tile])
            frames = frames.clamp(-1, 1).add(1).mul(127.5).to(torch.uint8)
            host = torch.empty(frames.shape, dtype=torch.uint8, pin_memory=True)
            host.copy_(frames, non_blocking=True)
            chunks.append(host)
        torch.cuda.current_stream(self.device).synchronize()
        return torch.cat(chunks, dim=2)

    @torch.inference_mode()
    def generate(self, video, audio, sigmas, tile=8):
        video, audio = self._denoise(video.to(self.device), audio.to(self.device), sigmas)
        self.offload.acquire(self.vae)
        frames = self._decode_tiles(self.vae, video, tile)
        self.offload.release(self.vae)
        self.offload.acquire(self.audio_vae)
        wav = self.audio_vae(audio)
        self.offload.release(self.audio_vae)
        return frames, wav.cpu()
