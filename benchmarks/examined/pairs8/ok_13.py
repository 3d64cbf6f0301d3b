import queue
import threading
from concurrent.futures import Future

import torch
import torch.nn as nn


class InferenceWorker(threading.Thread):
    def __init__(self, model, requests):
        super().__init__(daemon=True)
        self.model = model
        self.requests = requests
        self.stream = torch.cuda.Stream()

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_stream(self.stream)
        while True:
            item = self.requests.get()
            if item is None:
                return
            features, future = item
            try:
                x = features.pin_memory().to("cuda", non_blocking=True)
                y = self.model(x).softmax(-1)
                host = torch.empty(y.shape, pin_memory=True)
                host.copy_(y, non_blocking=True)
                self.stream.synchronize()
                future.set_result(host)
            except Exception as exc:
                future.set_exception(exc)


class Server:
    def __init__(self, model, workers=4):
        self.requests = queue.Queue()
        self.workers = [InferenceWorker(model, self.requests) for _ in range(workers)]
        for w in self.workers:
            w.start()

    def submit(self, features):
        future = Future()
        self.requests.put((features, future))
        return future

    def close(self):
        for _ in self.workers:
            self.requests.put(None)
        for w in self.workers:
            w.join()


def main():
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda().eval()
    torch.cuda.synchronize()
    server = Server(model)
    futures = [server.submit(torch.randn(16, 256)) for _ in range(100)]
    print(sum(f.result().argmax(-1).float().mean().item() for f in futures))
    server.close()


if __name__ == "__main__":
    main()
