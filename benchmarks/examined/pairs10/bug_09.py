"""Spectrogram feeder: a decoder thread writes audio blocks into pinned memory."""
import queue
import threading

import numpy as np
import torch


class AudioFeeder:
    """Yields device blocks; host blocks circulate between two queues."""

    def __init__(self, block_len=1 << 22, blocks=3, count=120):
        self.count = count
        self.pool = [torch.zeros(block_len, pin_memory=True) for _ in range(blocks)]
        self.empty = queue.Queue()
        self.full = queue.Queue(maxsize=blocks)
        for number in range(blocks):
            self.empty.put(number)
        self.copy_stream = torch.cuda.Stream()
        self.thread = threading.Thread(target=self._decode, daemon=True)
        self.thread.start()

    def _decode(self):
        rng = np.random.default_rng(2)
        for _ in range(self.count):
            number = self.empty.get()
            samples = self.pool[number].numpy()
            samples[:] = rng.standard_normal(samples.size, dtype=np.float32)
            self.full.put(number)
        self.full.put(-1)

    def blocks(self):
        while (number := self.full.get()) >= 0:
            with torch.cuda.stream(self.copy_stream):
                block = self.pool[number].cuda(non_blocking=True)
                arrived = torch.cuda.Event()
                arrived.record()
            self.empty.put(number)
            torch.cuda.current_stream().wait_event(arrived)
            block.record_stream(torch.cuda.current_stream())
            yield block


def average_spectrum(n_fft=1024):
    window = torch.hann_window(n_fft, device="cuda")
    total = torch.zeros(n_fft // 2 + 1, device="cuda")
    feeder = AudioFeeder()
    for block in feeder.blocks():
        spec = torch.stft(block, n_fft, window=window, return_complex=True)
        total += spec.abs().mean(dim=-1)
    return (total / feeder.count).cpu()


if __name__ == "__main__":
    print(average_spectrum()[:8])
