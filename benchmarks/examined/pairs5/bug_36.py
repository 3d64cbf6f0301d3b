"""In-situ analysis: field snapshots go to a thread that computes structure functions on the CPU."""
import queue
import threading
import numpy as np
import torch


class SnapshotSink:
    def __init__(self, shape, depth=3):
        self.stream = torch.cuda.Stream()
        self.buffers = queue.Queue()
        for _ in range(depth):
            self.buffers.put(torch.empty(shape, pin_memory=True))
        self.inbox = queue.Queue()
        self.results = {}
        self.worker = threading.Thread(target=self._work, daemon=True)
        self.worker.start()

    def publish(self, step, field):
        host = self.buffers.get()
        snapshot = field.clone()
        issued = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(issued)
            host.copy_(snapshot, non_blocking=True)
            snapshot.record_stream(self.stream)
        self.inbox.put((step, host, issued))

    def _work(self):
        for item in iter(self.inbox.get, None):
            step, host, event = item
            event.synchronize()
            field = host.numpy()
            self.results[step] = [float(np.mean((field[r:] - field[:-r]) ** 2)) for r in (1, 2, 4, 8)]
            self.buffers.put(host)

    def close(self):
        self.inbox.put(None)
        self.worker.join()
        return self.results


class KuramotoSivashinsky:
    def __init__(self, n, batch):
        k = torch.fft.rfftfreq(n, 1 / n, device="cuda") / 16
        self.lin = torch.exp((k ** 2 - k ** 4) * 0.01)
        self.ik = 1j * k
        self.u = 0.1 * torch.randn(n, batch, device="cuda")

    def step(self, dt=0.01):
        u_hat = torch.fft.rfft(self.u, dim=0)
        non = torch.fft.rfft(0.5 * self.u * self.u, dim=0)
        u_hat = self.lin[:, None] * (u_hat - dt * self.ik[:, None] * non)
        self.u = torch.fft.irfft(u_hat, n=self.u.shape[0], dim=0)


def main():
    model = KuramotoSivashinsky(4096, 512)
    sink = SnapshotSink((4096, 512))
    for step in range(2000):
        model.step()
        if step % 50 == 0:
            sink.publish(step, model.u)
    results = sink.close()
    print(len(results), results[1950])


if __name__ == "__main__":
    main()
