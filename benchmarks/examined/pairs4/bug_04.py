"""Background feeder for an audio tagging trainer."""
import queue
import threading

import torch
import torch.nn.functional as F
from torch import nn

STOP = object()


class ClipFeeder:
    def __init__(self, clips, device, depth=3):
        self.clips = clips
        self.device = device
        self.ready = queue.Queue(depth)
        self.side = torch.cuda.Stream(device)
        self.worker = threading.Thread(target=self._loop, daemon=True)
        self.worker.start()

    def _loop(self):
        torch.cuda.set_device(self.device)
        for wave, label in self.clips:
            with torch.cuda.stream(self.side):
                wave = wave.pin_memory().to(self.device, non_blocking=True)
                label = label.pin_memory().to(self.device, non_blocking=True)
                spec = torch.stft(wave, 512, 160, return_complex=True,
                                  window=torch.hann_window(512, device=self.device)).abs()
            done = torch.cuda.Event()
            done.record()
            self.ready.put((spec, label, done))
        self.ready.put(STOP)

    def __iter__(self):
        main = torch.cuda.current_stream(self.device)
        while True:
            item = self.ready.get()
            if item is STOP:
                return
            spec, label, done = item
            main.wait_event(done)
            for t in (spec, label):
                t.record_stream(main)
            yield spec.log1p(), label


def clips(n):
    for _ in range(n):
        yield torch.randn(64, 32000), torch.randint(0, 50, (64,))


def main():
    device = torch.device("cuda", 0)
    net = nn.Sequential(nn.Conv1d(257, 128, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 50))
    net.to(device)
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for spec, label in ClipFeeder(clips(500), device):
        loss = F.cross_entropy(net(spec), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
