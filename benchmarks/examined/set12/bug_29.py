import threading
from queue import Queue

import tensorrt as trt
import torch

_LOGGER = trt.Logger(trt.Logger.ERROR)


class InferWorker(threading.Thread):
    def __init__(self, plan, requests, results, shape, classes, device="cuda"):
        super().__init__(daemon=True)
        self.requests = requests
        self.results = results
        self.device = torch.device(device)
        self.engine = trt.Runtime(_LOGGER).deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.stream = torch.cuda.Stream(self.device)
        self.input = torch.zeros(shape, device=self.device)
        self.output = torch.zeros((shape[0], classes), device=self.device)
        self.context.set_tensor_address("images", self.input.data_ptr())
        self.context.set_tensor_address("logits", self.output.data_ptr())
        self.graph = None

    def preprocess(self, images):
        raw = torch.from_numpy(images).to(self.device)
        x = raw.permute(0, 3, 1, 2).float().div_(255.0)
        self.input.copy_(x.sub_(0.45).div_(0.225))
        torch.cuda.synchronize(self.device)

    def _enqueue(self):
        if not self.context.execute_async_v3(torch.cuda.current_stream(self.device).cuda_stream):
            raise RuntimeError("enqueueV3 failed")

    def infer(self):
        with torch.cuda.stream(self.stream):
            if self.graph is None:
                self._enqueue()
                self.stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(
                    graph, stream=self.stream, capture_error_mode="thread_local"
                ):
                    self._enqueue()
                self.graph = graph
            self.graph.replay()
            out = self.output.clone()
        self.stream.synchronize()
        return out.cpu().numpy()

    def run(self):
        while True:
            item = self.requests.get()
            if item is None:
                break
            request_id, images = item
            self.preprocess(images)
            self.results.put((request_id, self.infer()))


def serve(plan, source, shape, classes, num_workers=4):
    requests, results = Queue(), Queue()
    workers = [InferWorker(plan, requests, results, shape, classes) for _ in range(num_workers)]
    for w in workers:
        w.start()
    count = 0
    for request in source:
        requests.put(request)
        count += 1
    answers = dict(results.get() for _ in range(count))
    for _ in workers:
        requests.put(None)
    return answers
