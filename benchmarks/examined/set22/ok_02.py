"""Live preview decoding that runs beside the sampler on its own CUDA stream."""
import queue
import threading

import numpy as np
import torch
from PIL import Image


class LivePreviewer:
    def __init__(self, vae_approx, device):
        self.vae = vae_approx.to(device).eval()
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.jobs = queue.Queue(maxsize=2)
        self.latest = None
        self.lock = threading.Lock()
        torch.cuda.synchronize(device)
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def offer(self, step, latent):
        if self.jobs.full():
            return
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        self.jobs.put((step, latent, ready))

    @torch.inference_mode()
    def _decode(self, latent, ready):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            latent.record_stream(self.stream)
            sample = self.vae(latent[:1].float())[0]
            sample = sample.add(1.0).mul(127.5).round().clamp(0, 255)
            return sample.to(torch.uint8).permute(1, 2, 0).contiguous().cpu().numpy()

    def _loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            step, latent, ready = job
            del job
            image = Image.fromarray(np.asarray(self._decode(latent, ready)))
            del latent
            with self.lock:
                self.latest = (step, image)

    def close(self):
        self.jobs.put(None)
        self.thread.join()


@torch.inference_mode()
def sample(unet, sigmas, x, previewer):
    for i in range(len(sigmas) - 1):
        denoised = unet(x, sigmas[i])
        d = (x - denoised) / sigmas[i]
        x = x + d * (sigmas[i + 1] - sigmas[i])
        previewer.offer(i, denoised)
    return x


def generate(unet, vae, vae_approx, shape, sigmas, device="cuda:0"):
    device = torch.device(device)
    previewer = LivePreviewer(vae_approx, device)
    try:
        x = torch.randn(shape, device=device) * sigmas[0]
        latent = sample(unet, sigmas, x, previewer)
        image = vae(latent).clamp(-1, 1)
        return image.cpu(), previewer.latest
    finally:
        previewer.close()
