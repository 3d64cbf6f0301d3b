"""Checkpoint writer: snapshot on the main stream, download on a copy stream, file IO in a thread after the event."""
import os
import queue
import tempfile
import threading
import numpy as np
import torch


class CheckpointWriter:
    def __init__(self, numel, directory, depth=2):
        self.directory = directory
        self.stream = torch.cuda.Stream()
        self.pool = queue.Queue()
        for _ in range(depth):
            self.pool.put((torch.empty(numel, device="cuda"), torch.empty(numel, pin_memory=True)))
        torch.cuda.synchronize()
        self.jobs = queue.Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def save(self, step, tensor):
        shadow, host = self.pool.get()
        shadow.copy_(tensor.view(-1))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(shadow, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.jobs.put((step, shadow, host, event))

    def _loop(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            step, shadow, host, event = job
            event.synchronize()
            np.save(os.path.join(self.directory, f"step{step:06d}.npy"), host.numpy())
            self.pool.put((shadow, host))

    def close(self):
        self.jobs.put(None)
        self.thread.join()


class IsingLattice:
    def __init__(self, n):
        self.spin = torch.randint(0, 2, (n, n), device="cuda").float() * 2 - 1
        i = torch.arange(n, device="cuda")
        self.mask = ((i[:, None] + i[None, :]) % 2).bool()

    def sweep(self, beta=0.44):
        for mask in (self.mask, ~self.mask):
            nb = sum(self.spin.roll(s, d) for s in (1, -1) for d in (0, 1))
            flip = torch.rand_like(self.spin) < torch.exp(-2 * beta * self.spin * nb)
            self.spin.copy_(torch.where(flip & mask, -self.spin, self.spin))


def main():
    n = 2048
    lattice = IsingLattice(n)
    with tempfile.TemporaryDirectory() as directory:
        writer = CheckpointWriter(n * n, directory)
        for step in range(200):
            lattice.sweep()
            if step % 20 == 0:
                writer.save(step, lattice.spin)
        writer.close()
        print(sorted(os.listdir(directory))[-1])


if __name__ == "__main__":
    main()
