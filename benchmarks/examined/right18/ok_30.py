"""Serves a projection while newer weights are installed from another thread."""
import threading

import torch
import torch.nn.functional as F


class Version:
    def __init__(self, weight, ready, number):
        self.weight = weight
        self.ready = ready
        self.number = number


class HotSwapLinear:
    def __init__(self, weight, device="cuda:0"):
        self.device = torch.device(device)
        self.lock = threading.Lock()
        self.loader = torch.cuda.Stream(self.device)
        self.version = self._upload(weight, 0)

    def _upload(self, weight, number):
        with torch.cuda.stream(self.loader):
            pinned = torch.empty(weight.shape, dtype=weight.dtype, pin_memory=True)
            pinned.copy_(weight.detach())
            fresh = pinned.to(self.device, non_blocking=True)
            fresh = fresh / fresh.norm(dim=1, keepdim=True).clamp_(min=1e-6)
            ready = torch.cuda.Event()
            ready.record(self.loader)
        return Version(fresh, ready, number)

    def install(self, weight):
        with self.lock:
            self.version = self._upload(weight, self.version.number + 1)
            return self.version.number

    @torch.no_grad()
    def __call__(self, x):
        version = self.version
        here = torch.cuda.current_stream(self.device)
        here.wait_event(version.ready)
        version.weight.record_stream(here)
        return F.linear(x, version.weight), version.number


class Refresher(threading.Thread):
    def __init__(self, layer, fetch, period=5.0):
        super().__init__(daemon=True)
        self.layer = layer
        self.fetch = fetch
        self.period = period
        self.halt = threading.Event()

    def run(self):
        torch.cuda.set_device(self.layer.device)
        while not self.halt.wait(self.period):
            weight = self.fetch()
            if weight is not None:
                self.layer.install(weight)

    def stop(self):
        self.halt.set()
        self.join()


def serve(layer, requests, fetch):
    refresher = Refresher(layer, fetch)
    refresher.start()
    try:
        for x in requests:
            y, number = layer(x)
            yield y.cpu(), number
    finally:
        refresher.stop()
