import torch
import torch.nn.functional as F


def rms(x, scale, eps=1e-5):
    inv = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (x.float() * inv).to(x.dtype) * scale


class StreamingEngine:
    """Walks all blocks, keeping the next one on its way."""

    def __init__(self, mover, n_blocks: int, ahead: int = 1):
        self.mover = mover
        self.n_blocks = n_blocks
        self.ahead = ahead
        self.steps = 0

    def warm(self):
        for row in range(self.ahead):
            self.mover.bring(row)

    def _apply(self, x, w):
        h = rms(x, w["scale"])
        h = F.silu(h @ w["up"])
        return x + h @ w["down"]

    @torch.inference_mode()
    def forward(self, x):
        for row in range(self.n_blocks):
            w = self.mover.take(row)
            nxt = row + self.ahead
            if nxt < self.n_blocks:
                self.mover.bring(nxt)
            x = self._apply(x, w)
        self.steps += 1
        return x

    def describe(self):
        return {
            "blocks": self.n_blocks,
            "ahead": self.ahead,
            "steps": self.steps,
            "seats": len(self.mover.seats),
        }
