"""Captured decode step served from a worker that runs on its own stream."""
import queue
import threading

import torch


class GraphRunner:
    def __init__(self, model, sample_args):
        self._model = model
        self._stream = torch.cuda.Stream()
        self._graph = torch.cuda.CUDAGraph()
        self._param_buffers = [a.clone() for a in sample_args]
        self._output = None

    def capture(self):
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(3):
                self._model(*self._param_buffers)
        self._stream.synchronize()
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._output = self._model(*self._param_buffers)
        torch.cuda.synchronize()

    def _copy_to_param_buffer(self, args):
        for buf, arg in zip(self._param_buffers, args):
            if buf.shape != arg.shape or buf.dtype != arg.dtype:
                return False
            buf.copy_(arg, non_blocking=True)
        return True

    def forward(self, *args):
        assert self._copy_to_param_buffer(args)
        self._graph.replay()
        return self._output

    def synchronize(self):
        self._stream.synchronize()


class DecodeWorker:
    def __init__(self, model, max_batch, hidden):
        sample = torch.zeros(max_batch, hidden, device="cuda")
        lengths = torch.ones(max_batch, dtype=torch.int64, device="cuda")
        self.runner = GraphRunner(model, (sample, lengths))
        self.runner.capture()
        self.host_tokens = torch.empty(max_batch, dtype=torch.int64, pin_memory=True)
        self.requests = queue.Queue()
        self.results = queue.Queue()
        self.stream = torch.cuda.Stream()

    def _step(self, hidden, lengths):
        tokens = self.runner.forward(hidden, lengths)
        self.host_tokens.copy_(tokens, non_blocking=True)
        self.runner.synchronize()
        return self.host_tokens.tolist()

    def loop(self):
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            while True:
                item = self.requests.get()
                if item is None:
                    return
                hidden, lengths = item
                self.results.put(self._step(hidden.cuda(), lengths.cuda()))


class Head(torch.nn.Module):
    def __init__(self, hidden, vocab):
        super().__init__()
        self.norm = torch.nn.LayerNorm(hidden)
        self.proj = torch.nn.Linear(hidden, vocab, bias=False)

    @torch.no_grad()
    def forward(self, hidden, lengths):
        logits = self.proj(self.norm(hidden)) / lengths.unsqueeze(-1)
        return logits.argmax(-1)


def main():
    worker = DecodeWorker(Head(4096, 151936).cuda(), max_batch=64, hidden=4096)
    torch.cuda.synchronize()
    thread = threading.Thread(target=worker.loop)
    thread.start()
    for _ in range(128):
        worker.requests.put((torch.randn(64, 4096), torch.ones(64, dtype=torch.int64)))
    worker.requests.put(None)
    thread.join()
    while not worker.results.empty():
        print(worker.results.get()[:4])


if __name__ == "__main__":
    main()
