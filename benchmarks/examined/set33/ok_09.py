"""Token streaming with an output thread."""
import queue
import threading

import torch
from torch import nn


class StepOutput:
    def __init__(self, step, tokens, done):
        self.step, self.tokens, self.done = step, tokens, done


class OutputWorker(threading.Thread):
    """Turns downloaded tokens into lists."""

    def __init__(self, device):
        super().__init__(name="output", daemon=True)
        self.device = device
        self.inbox, self.outbox = queue.Queue(), queue.Queue()

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.inbox.get()
            if item is None:
                self.outbox.put(None)
                return
            item.done.synchronize()
            self.outbox.put((item.step, item.tokens.tolist()))


class TinyDecoder(nn.Module):
    def __init__(self, vocab=8192, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state):
        state = self.cell(self.embed(ids), state)
        return self.head(state), state


class Engine:
    def __init__(self, batch=32, dim=512, device="cuda:0"):
        self.device = torch.device(device)
        self.model = TinyDecoder(dim=dim).to(self.device).eval()
        self.batch, self.dim = batch, dim
        self.copy_stream = torch.cuda.Stream(self.device)

    def _download(self, worker, step, tokens):
        host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            host.copy_(tokens, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        tokens.record_stream(self.copy_stream)
        worker.inbox.put(StepOutput(step, host, done))

    @torch.inference_mode()
    def generate(self, prompt_ids, steps):
        worker = OutputWorker(self.device)
        worker.start()
        ids = prompt_ids.to(self.device)
        state = torch.zeros((self.batch, self.dim), device=self.device)
        for step in range(steps):
            logits, state = self.model(ids, state)
            ids = logits.argmax(dim=-1)
            self._download(worker, step, ids)
        worker.inbox.put(None)
        columns = {}
        while True:
            item = worker.outbox.get()
            if item is None:
                break
            columns[item[0]] = item[1]
        worker.join()
        return [columns[s] for s in range(steps)]


if __name__ == "__main__":
    engine = Engine()
    print(len(engine.generate(torch.randint(8192, (32,)), 64)))
