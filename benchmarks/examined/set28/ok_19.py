import time

import torch


class Benchmark:
    def __init__(self, description, devices):
        self.description, self.devices = description, devices

    def __enter__(self):
        self._sync()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self._sync()
        print(f"{self.description}: {time.perf_counter() - self.start:.4f} s")

    def _sync(self):
        for d in self.devices:
            torch.cuda.synchronize(d)


class DeviceWorker:
    """Computes blocks on one device and brings every finished block to the host in the background."""

    def __init__(self, device, size, blocks):
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.operands = [torch.rand(size, size, device=device) for _ in range(blocks)]
        self.host = [torch.empty(size, size, pin_memory=True) for _ in range(blocks)]
        self.results = []

    def run(self):
        self.results = [x.mm(x) for x in self.operands]
        return self.results

    def run_and_copy(self):
        self.results = []
        compute = torch.cuda.current_stream(self.device)
        for x, host in zip(self.operands, self.host):
            y = x.mm(x)
            self.results.append(y)
            ready = compute.record_event()
            with torch.cuda.stream(self.copy_stream):
                self.copy_stream.wait_event(ready)
                host.copy_(y, non_blocking=True)

    def copy_to_cpu(self, non_blocking=False):
        for y, host in zip(self.results, self.host):
            host.copy_(y, non_blocking=non_blocking)
        return self.host

    def release(self):
        torch.cuda.synchronize(self.device)
        self.results = []


def checksum(workers):
    return [sum(float(h[0, 0]) + float(h[-1, -1]) for h in w.host) for w in workers]


def main(size=4000, blocks=20):
    devices = [torch.device("cuda", i) for i in range(min(2, torch.cuda.device_count()))]
    workers = [DeviceWorker(d, size, blocks) for d in devices]

    with Benchmark("compute", devices):
        for w in workers:
            w.run()

    with Benchmark("copy to CPU", devices):
        for w in workers:
            w.copy_to_cpu(non_blocking=True)
    reference = checksum(workers)
    for w in workers:
        w.release()

    with Benchmark("compute and copy together", devices):
        for w in workers:
            with torch.cuda.device(w.device):
                w.run_and_copy()
    overlapped = checksum(workers)
    for w in workers:
        w.release()
    print(max(abs(a - b) for a, b in zip(reference, overlapped)))


if __name__ == "__main__":
    main()
