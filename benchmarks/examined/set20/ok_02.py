"""Non-finite guard for the streaming diffusion hot path."""
import logging

import torch

logger = logging.getLogger(__name__)


class NanGuard:
    """Heal a tensor in place; the verdict is reported one frame late."""

    def __init__(self, name, device, log_every=300):
        self.name = name
        self.log_every = log_every
        self.hits = 0
        self._flag_dev = torch.zeros((), dtype=torch.bool, device=device)
        self._flag_host = torch.zeros((), dtype=torch.bool).pin_memory()
        self._event = torch.cuda.Event()
        self._pending = False

    def _poll(self):
        if not self._pending or not self._event.query():
            return
        self._pending = False
        if bool(self._flag_host):
            self.hits += 1
            if self.hits % self.log_every == 1:
                logger.warning("%s: non-finite values healed (%d)", self.name, self.hits)

    def sanitize_(self, tensor):
        self._poll()
        if not self._pending:
            torch.any(~torch.isfinite(tensor), out=self._flag_dev)
            self._flag_host.copy_(self._flag_dev, non_blocking=True)
            self._event.record()
            self._pending = True
        torch.nan_to_num_(tensor, nan=0.0, posinf=0.0, neginf=0.0)
        return tensor


class SimilarImageFilter:
    def __init__(self, device, threshold=0.98):
        self.threshold = threshold
        self.prev = None
        self._score_host = torch.ones((), dtype=torch.float32).pin_memory()
        self._event = torch.cuda.Event()
        self._event.record()
        self.score = 1.0

    def __call__(self, x):
        if self.prev is None:
            self.prev = x.clone()
            return False
        self._event.synchronize()
        self.score = float(self._score_host)
        cos = torch.nn.functional.cosine_similarity(
            self.prev.reshape(1, -1), x.reshape(1, -1)
        )
        self._score_host.copy_(cos[0], non_blocking=True)
        self._event.record()
        self.prev.copy_(x)
        return self.score > self.threshold


class StreamPipeline:
    def __init__(self, unet, vae, device):
        self.unet = unet
        self.vae = vae
        self.stream = torch.cuda.Stream(device=device)
        self.pred_guard = NanGuard("model_pred", device)
        self.stock_guard = NanGuard("stock_noise", device)
        self.filter = SimilarImageFilter(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            self.stock_noise = torch.randn(1, 4, 64, 64, device=device)
            self.last_image = torch.zeros(1, 3, 512, 512, device=device)

    def __call__(self, frame):
        self.stream.wait_stream(torch.cuda.current_stream())
        frame.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            if not self.filter(frame):
                latent = self.vae.encode(frame)
                pred = self.pred_guard.sanitize_(self.unet(latent + self.stock_noise))
                self.stock_noise.mul_(0.9).add_(pred, alpha=0.1)
                self.stock_guard.sanitize_(self.stock_noise)
                self.last_image.copy_(self.vae.decode(latent - pred))
            out = self.last_image.clone()
        torch.cuda.current_stream().wait_stream(self.stream)
        out.record_stream(torch.cuda.current_stream())
        return out
