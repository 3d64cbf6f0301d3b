"""Swap model parts between device and pinned host memory between phases."""
import contextlib

import torch
from torch import nn


class PhaseSwap:
    def __init__(self, parts):
        self.parts = parts
        self.side = torch.cuda.Stream()
        self.saved = {}

    def _tensors(self, part):
        yield from self.parts[part].named_parameters()
        yield from self.parts[part].named_buffers()

    @torch.no_grad()
    def evict(self, part):
        self.side.wait_stream(torch.cuda.current_stream())
        entries = []
        with torch.cuda.stream(self.side):
            for name, t in self._tensors(part):
                host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
                host.copy_(t.data, non_blocking=True)
                entries.append((t, host, t.data.untyped_storage().nbytes()))
        self.side.synchronize()
        for t, _, _ in entries:
            t.data.untyped_storage().resize_(0)
        self.saved[part] = entries

    @torch.no_grad()
    def restore(self, part):
        for t, host, nbytes in self.saved.pop(part):
            t.data.untyped_storage().resize_(nbytes)
            t.data.copy_(host, non_blocking=True)

    @contextlib.contextmanager
    def without(self, part):
        self.evict(part)
        try:
            yield
        finally:
            self.restore(part)


def make_part(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers)


@torch.inference_mode()
def main(width=2048, rounds=4):
    encoder = make_part(width, 6).cuda().eval()
    decoder = make_part(width, 6).cuda().eval()
    swap = PhaseSwap({"encoder": encoder, "decoder": decoder})
    x = torch.randn(256, width, device="cuda")
    want = decoder(encoder(x)).clone()
    for _ in range(rounds):
        with swap.without("decoder"):
            hidden = encoder(x)
            scratch = torch.ones(1 << 26, device="cuda")
            hidden = hidden + scratch[:1] - 1
            del scratch
        with swap.without("encoder"):
            out = decoder(hidden)
    print("max diff", float((out - want).abs().max()))


if __name__ == "__main__":
    main()
