"""Frame-skipping actor for image observations."""
import numpy as np
import torch
import torch.nn as nn


class PixelEnvs:
    def __init__(self, n, size):
        self.rng = np.random.default_rng(1)
        self.frames = self.rng.integers(0, 255, (n, size, size), dtype=np.uint8)

    def step(self, actions):
        self.frames = np.roll(self.frames, 1 + int(actions[0]), axis=-1)
        return self.frames


class FrameSkipActor:
    def __init__(self, envs, net, skip):
        n, h, w = envs.frames.shape
        self.envs, self.net, self.skip = envs, net, skip
        self.frame_pin = torch.empty(n, h, w, dtype=torch.uint8, pin_memory=True)
        self.action_pin = torch.zeros(n, dtype=torch.int64, pin_memory=True)
        self.stack = torch.zeros(n, skip, h, w, device="cuda")
        self.selected = torch.cuda.Event()

    def _observe(self, slot, frames):
        self.frame_pin.numpy()[...] = frames
        raw = self.frame_pin.to("cuda", non_blocking=True)
        self.stack[:, slot] = raw.float().div_(255.0)

    @torch.no_grad()
    def act(self):
        actions = self.action_pin.numpy()
        for slot in range(self.skip):
            self._observe(slot, self.envs.step(actions))
        q = self.net(self.stack)
        self.action_pin.copy_(q.argmax(-1), non_blocking=True)
        self.selected.record()
        self.selected.synchronize()
        return q.max(-1).values


def main():
    net = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Flatten(), nn.LazyLinear(6),
    ).cuda()
    actor = FrameSkipActor(PixelEnvs(256, 84), net, skip=4)
    total = torch.zeros((), device="cuda")
    for _ in range(500):
        total += actor.act().mean()
    print(total.item() / 500)


if __name__ == "__main__":
    main()
