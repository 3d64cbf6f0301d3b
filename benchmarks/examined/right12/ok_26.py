import queue
import threading
from concurrent.futures import Future

import torch
from torch import nn


class InferencePool:
    """Several worker threads share one model; each one owns a stream."""

    def __init__(self, model, workers=3, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.model = model.to(self.device).eval()
        self.requests = queue.Queue()
        self.closed = False
        self.lock = threading.Lock()
        torch.cuda.synchronize(self.device)
        self.threads = [threading.Thread(target=self._work, name=f"infer-{i}") for i in range(workers)]
        for thread in self.threads:
            thread.start()

    def submit(self, array):
        future = Future()
        with self.lock:
            if self.closed:
                raise RuntimeError("pool is closed")
            self.requests.put((torch.as_tensor(array), future))
        return future

    def _work(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.inference_mode(), torch.cuda.stream(stream):
            while True:
                item = self.requests.get()
                if item is None:
                    return
                batch, future = item
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(self._infer(batch))
                except Exception as exc:
                    future.set_exception(exc)

    def _infer(self, batch):
        x = batch.float().pin_memory().to(self.device, non_blocking=True)
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        probs = torch.softmax(self.model(x), dim=1)
        best = probs.max(dim=1)
        values = torch.empty(best.values.shape, pin_memory=True)
        values.copy_(best.values, non_blocking=True)
        indices = best.indices.cpu()
        return values, indices

    def close(self):
        with self.lock:
            if self.closed:
                return
            self.closed = True
            for _ in self.threads:
                self.requests.put(None)
        for thread in self.threads:
            thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 20))
    with InferencePool(net) as pool:
        futures = [pool.submit(torch.randn(1 + i % 7, 64).numpy()) for i in range(60)]
        wrong = pool.submit(torch.randn(3, 63).numpy())
        counts = torch.zeros(20, dtype=torch.long)
        confidence = []
        for future in futures:
            values, indices = future.result()
            confidence.append(values.mean().item())
            counts += torch.bincount(indices, minlength=20)
        print(counts.tolist(), sum(confidence) / len(confidence))
        print(type(wrong.exception()).__name__)


if __name__ == "__main__":
    main()
