"""Audio synthesis in blocks; a writer thread logs the transfer time of each block."""
import queue
import threading
import wave

import numpy as np
import torch

RATE = 48_000


class Transfer:
    """One block on its way to the host."""

    def __init__(self, samples):
        self.host = torch.empty(samples, dtype=torch.int16, pin_memory=True)
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.source = None


class Writer(threading.Thread):
    def __init__(self, path, idle, jobs):
        super().__init__(daemon=True)
        self.path = path
        self.idle = idle
        self.jobs = jobs
        self.times = []

    def run(self):
        with wave.open(self.path, "wb") as f:
            f.setnchannels(1)
            f.setsampwidth(2)
            f.setframerate(RATE)
            while (job := self.jobs.get()) is not None:
                job.end.synchronize()
                self.times.append(job.begin.elapsed_time(job.end))
                f.writeframes(job.host.numpy().tobytes())
                job.source = None
                self.idle.put(job)


class Synth:
    def __init__(self, voices, samples):
        gen = torch.Generator(device="cuda").manual_seed(7)
        self.freq = torch.rand(voices, 1, device="cuda", generator=gen) * 800 + 60
        self.amp = torch.rand(voices, 1, device="cuda", generator=gen)
        self.t = torch.arange(samples, device="cuda")[None].double()
        self.samples = samples
        self.block = 0

    def next(self):
        t = (self.t + self.block * self.samples) / RATE
        self.block += 1
        mix = (self.amp * torch.sin(2 * np.pi * self.freq * t)).sum(dim=0)
        mix = mix / self.amp.sum()
        return (mix * 32767).round().to(torch.int16)


class Bridge:
    def __init__(self, path, samples, depth=3):
        self.stream = torch.cuda.Stream()
        self.idle, self.jobs = queue.Queue(), queue.Queue()
        for _ in range(depth):
            self.idle.put(Transfer(samples))
        self.writer = Writer(path, self.idle, self.jobs)
        self.writer.start()

    def send(self, block):
        job = self.idle.get()
        job.source = block
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            job.begin.record()
            job.host.copy_(block, non_blocking=True)
            job.end.record()
        self.jobs.put(job)

    def close(self):
        self.jobs.put(None)
        self.writer.join()
        return self.writer.times


def main(path="/tmp/synth.wav"):
    samples = RATE // 2
    synth = Synth(256, samples)
    bridge = Bridge(path, samples)
    for _ in range(40):
        bridge.send(synth.next())
    times = bridge.close()
    print(f"{len(times)} blocks, copy {np.mean(times):.3f} ms")


if __name__ == "__main__":
    main()
