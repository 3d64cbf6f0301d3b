"""Speech pretraining: log-mel windows are cut on the host into pinned memory."""
import numpy as np
import torch
import torch.nn as nn


class StagingArea:
    def __init__(self, shape, count):
        self.buffers = [torch.empty(shape, pin_memory=True) for _ in range(count)]
        self.events = [torch.cuda.Event() for _ in range(count)]
        self.turn = 0

    def acquire(self):
        index = self.turn
        self.turn = (self.turn + 1) % len(self.buffers)
        self.events[index].synchronize()
        return index, self.buffers[index]

    def upload(self, index):
        self.events[index].record()
        return self.buffers[index].cuda(non_blocking=True)


class WindowSampler:
    def __init__(self, features, batch, frames, seed=7):
        self.features = features
        self.batch, self.frames = batch, frames
        self.rng = np.random.default_rng(seed)
        self.staging = StagingArea((batch, frames, features.shape[1]), count=2)

    def __iter__(self):
        while True:
            index, buf = self.staging.acquire()
            out = buf.numpy()
            for b in range(self.batch):
                at = int(self.rng.integers(0, len(self.features) - self.frames))
                out[b] = self.features[at:at + self.frames]
            yield self.staging.upload(index)


def main(steps=5000):
    features = np.load("librispeech_mels.npy", mmap_mode="r")
    model = nn.LSTM(features.shape[1], 1024, num_layers=4, batch_first=True).cuda()
    head = nn.Linear(1024, features.shape[1]).cuda()
    params = list(model.parameters()) + list(head.parameters())
    optimizer = torch.optim.Adam(params, lr=2e-4)
    for step, window in zip(range(steps), WindowSampler(features, 64, 800)):
        hidden, _ = model(window[:, :-1])
        loss = (head(hidden) - window[:, 1:]).abs().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "apc.pt")


if __name__ == "__main__":
    main()
