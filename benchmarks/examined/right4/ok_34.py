import threading

import torch


class LayerDoneCounter:
    def __init__(self, layers):
        self.events = [torch.cuda.Event() for _ in range(layers)]
        self._count = layers
        self._cond = threading.Condition()

    def reset(self):
        with self._cond:
            self._count = 0

    def complete(self, layer, stream):
        self.events[layer].record(stream)
        with self._cond:
            self._count = layer + 1
            self._cond.notify_all()

    def wait_until(self, layer):
        with self._cond:
            self._cond.wait_for(lambda: self._count > layer)
        torch.cuda.current_stream().wait_event(self.events[layer])


class HostKv:
    def __init__(self, layers, tokens, width):
        self.k = torch.randn(layers, tokens, width).half().pin_memory()


class LoadBack(threading.Thread):
    def __init__(self, host, device_kv, counter):
        super().__init__(daemon=True)
        self.host, self.kv, self.counter = host, device_kv, counter
        self.stream = torch.cuda.Stream()
        self.wake = threading.Semaphore(0)
        self.start_event = torch.cuda.Event()
        self.stopping = False

    def request(self):
        self.counter.reset()
        self.start_event.record()
        self.wake.release()

    def stop(self):
        self.stopping = True
        self.wake.release()
        self.join()

    def run(self):
        while True:
            self.wake.acquire()
            if self.stopping:
                return
            self.stream.wait_event(self.start_event)
            for layer in range(self.kv.shape[0]):
                with torch.cuda.stream(self.stream):
                    self.kv[layer].copy_(self.host.k[layer], non_blocking=True)
                self.counter.complete(layer, self.stream)


class Attention:
    def __init__(self, layer, kv, counter):
        self.layer, self.kv, self.counter = layer, kv, counter

    def __call__(self, q):
        self.counter.wait_until(self.layer)
        keys = self.kv[self.layer]
        return torch.softmax(q @ keys.t() / keys.shape[-1] ** 0.5, -1) @ keys


@torch.no_grad()
def main(layers=8, rounds=5):
    kv = torch.empty(layers, 512, 128, dtype=torch.float16, device="cuda")
    counter = LayerDoneCounter(layers)
    loader = LoadBack(HostKv(layers, 512, 128), kv, counter)
    loader.start()
    stack = [Attention(i, kv, counter) for i in range(layers)]
    sums = []
    for _ in range(rounds):
        loader.request()
        q = torch.randn(16, 128, dtype=torch.float16, device="cuda")
        for layer in stack:
            q = layer(q)
        sums.append(q.float().sum())
    loader.stop()
    return torch.stack(sums).tolist()
