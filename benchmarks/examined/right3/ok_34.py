"""Several execution contexts of one engine, one per serving thread."""
import queue
import threading
from concurrent.futures import Future

import tensorrt as trt
import torch


class ContextWorker(threading.Thread):
    def __init__(self, engine: trt.ICudaEngine, jobs: queue.Queue, max_batch: int, device: torch.device):
        super().__init__(daemon=True)
        self.context = engine.create_execution_context()
        self.jobs = jobs
        self.device = device
        self.max_batch = max_batch

    def _setup(self) -> None:
        self.x = torch.zeros(self.max_batch, 64, device=self.device)
        self.y = torch.zeros(self.max_batch, 8, device=self.device)
        self.context.set_tensor_address("x", self.x.data_ptr())
        self.context.set_tensor_address("y", self.y.data_ptr())

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self._setup()
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                rows, future = job
                try:
                    future.set_result(self._infer(rows))
                except Exception as exc:
                    future.set_exception(exc)

    def _infer(self, rows: torch.Tensor) -> torch.Tensor:
        n = rows.shape[0]
        self.context.set_input_shape("x", (n, 64))
        self.x[:n].copy_(rows)
        if not self.context.execute_async_v3(self.stream.cuda_stream):
            raise RuntimeError("enqueue failed")
        return self.y[:n].cpu()


class Server:
    def __init__(self, plan: bytes, workers: int, max_batch: int, device: torch.device):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.jobs: queue.Queue = queue.Queue()
        self.workers = [ContextWorker(self.engine, self.jobs, max_batch, device) for _ in range(workers)]
        for w in self.workers:
            w.start()

    def submit(self, rows: torch.Tensor) -> Future:
        future: Future = Future()
        self.jobs.put((rows, future))
        return future

    def close(self) -> None:
        for _ in self.workers:
            self.jobs.put(None)
        for w in self.workers:
            w.join()


def main(path: str = "scorer.plan"):
    with open(path, "rb") as f:
        server = Server(f.read(), workers=2, max_batch=32, device=torch.device("cuda", 0))
    futures = [server.submit(torch.randn(1 + i % 32, 64)) for i in range(200)]
    print(sum(f.result().sum().item() for f in futures))
    server.close()


if __name__ == "__main__":
    main()
