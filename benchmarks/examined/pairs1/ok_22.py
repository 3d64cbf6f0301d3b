"""Checkpoint shards are read into bounce buffers and uploaded while the next read runs."""
import sys

import torch
from safetensors import safe_open


class BounceRing:
    def __init__(self, nbytes, depth):
        self.buffers = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(depth)]
        self.events = [None] * depth
        self.cursor = 0

    def next(self):
        i = self.cursor
        self.cursor = (i + 1) % len(self.buffers)
        if self.events[i] is not None:
            self.events[i].synchronize()
        return i, self.buffers[i]

    def sent(self, i, stream):
        self.events[i] = stream.record_event()


class ShardLoader:
    def __init__(self, device="cuda", nbytes=256 << 20, depth=3):
        self.ring = BounceRing(nbytes, depth)
        self.stream = torch.cuda.Stream(device)
        self.device = device

    def load(self, paths):
        state = {}
        with torch.cuda.stream(self.stream):
            for path in paths:
                with safe_open(path, framework="pt", device="cpu") as f:
                    for key in f.keys():
                        state[key] = self._upload(f.get_tensor(key))
        self.stream.synchronize()
        return state

    def _upload(self, tensor):
        flat = tensor.contiguous().view(-1).view(torch.uint8)
        i, buf = self.ring.next()
        buf[: flat.numel()].copy_(flat)
        dst = torch.empty(tensor.shape, dtype=tensor.dtype, device=self.device)
        dst.view(-1).view(torch.uint8).copy_(buf[: flat.numel()], non_blocking=True)
        self.ring.sent(i, self.stream)
        return dst


def main(paths):
    state = ShardLoader().load(paths)
    total = sum(t.float().sum() for t in state.values())
    print(len(state), float(total))


if __name__ == "__main__":
    main(sys.argv[1:])
