"""Stage functions of a video pipeline are placed on streams by a decorator."""
import functools

import torch
from torch import nn


def on_stream(attr):
    """Runs a method on ``getattr(self, attr)`` as if it were called inline."""

    def wrap(fn):
        @functools.wraps(fn)
        def inner(self, *args):
            stream = getattr(self, attr)
            caller = torch.cuda.current_stream()
            stream.wait_stream(caller)
            with torch.cuda.stream(stream):
                result = fn(self, *args)
            for t in args:
                if torch.is_tensor(t):
                    t.record_stream(stream)
            caller.wait_stream(stream)
            result.record_stream(caller)
            return result

        return inner

    return wrap


class VideoPipeline:
    def __init__(self, width=512):
        self.text_stream = torch.cuda.Stream()
        self.vae_stream = torch.cuda.Stream()
        self.text = nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.Linear(width, width)).cuda()
        self.dit = nn.ModuleList(nn.TransformerEncoderLayer(width, 8, batch_first=True) for _ in range(4)).cuda()
        self.vae = nn.Linear(width, 3 * 64).cuda()

    @on_stream("text_stream")
    def encode_prompt(self, tokens):
        return self.text(tokens)

    @on_stream("vae_stream")
    def decode(self, latents):
        return self.vae(latents).unflatten(-1, (3, 64))

    @torch.inference_mode()
    def __call__(self, tokens, frames=8, steps=4):
        cond = self.encode_prompt(tokens)
        x = torch.randn(frames, 128, cond.shape[-1], device="cuda")
        for _ in range(steps):
            h = x + cond.mean(1, keepdim=True)
            for layer in self.dit:
                h = layer(h)
            x = x - h / steps
        return self.decode(x)


def main():
    pipe = VideoPipeline()
    means = []
    for _ in range(12):
        means.append(pipe(torch.randn(1, 77, 256, device="cuda")).mean())
    print(torch.stack(means).tolist())


if __name__ == "__main__":
    main()
