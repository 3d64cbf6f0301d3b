"""Model replacement while serving: a loader thread fills the idle copy, the server swaps."""
import queue
import threading

import numpy as np
import torch


class WeightPair:
    """Two sets of device tensors; one serves, the other one can be filled."""

    def __init__(self, shapes, device):
        self.device = torch.device(device)
        self.sets = [
            {k: torch.zeros(s, device=self.device) for k, s in shapes.items()} for _ in range(2)
        ]
        torch.cuda.current_stream(self.device).synchronize()
        self.retired = [torch.cuda.Event(), torch.cuda.Event()]
        self.active = 0
        self._lock = threading.Lock()
        self._filled = False
        self._slot = threading.Semaphore(1)

    def fill(self, arrays, stream):
        """Loader side; blocks while an earlier fill has not been taken over."""
        self._slot.acquire()
        target = 1 - self.active
        stream.wait_event(self.retired[target])
        with torch.cuda.stream(stream):
            for name, tensor in self.sets[target].items():
                tensor.copy_(torch.from_numpy(arrays[name]))
        with self._lock:
            self._filled = True

    def current(self, stream):
        """Server side; returns the set for the next batch on `stream`."""
        with self._lock:
            if self._filled:
                self.retired[self.active].record(stream)
                self.active = 1 - self.active
                self._filled = False
                self._slot.release()
        return self.sets[self.active]


class LoaderThread(threading.Thread):
    def __init__(self, pair, versions):
        super().__init__(daemon=True)
        self.pair = pair
        self.versions = versions

    def run(self):
        torch.cuda.set_device(self.pair.device)
        stream = torch.cuda.Stream(self.pair.device)
        for arrays in self.versions:
            self.pair.fill(arrays, stream)


class Server:
    def __init__(self, pair):
        self.pair = pair
        self.stream = torch.cuda.Stream(pair.device)
        self.requests = queue.Queue()

    def _apply(self, weights, x):
        for i in range(len(weights)):
            x = torch.nn.functional.silu(x @ weights[f"layer{i}"])
        return x

    @torch.no_grad()
    def serve(self, n):
        results = []
        with torch.cuda.stream(self.stream):
            for _ in range(n):
                batch = self.requests.get()
                weights = self.pair.current(self.stream)
                x = torch.from_numpy(batch).to(self.pair.device)
                results.append(self._apply(weights, x).sum(-1))
            return torch.stack(results).cpu()


def make_version(rng, dim, depth):
    return {
        f"layer{i}": rng.standard_normal((dim, dim), dtype=np.float32) * dim**-0.5
        for i in range(depth)
    }


def main(dim=2048, depth=6, requests=200):
    rng = np.random.default_rng(0)
    pair = WeightPair({f"layer{i}": (dim, dim) for i in range(depth)}, "cuda:0")
    loader = LoaderThread(pair, (make_version(rng, dim, depth) for _ in range(4)))
    loader.start()
    server = Server(pair)
    feed = np.random.default_rng(1)
    for _ in range(requests):
        server.requests.put(feed.standard_normal((64, dim), dtype=np.float32))
    print(server.serve(requests).abs().mean())


if __name__ == "__main__":
    main()
