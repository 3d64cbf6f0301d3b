"""Embedding exporter: a writer thread stores results while the model runs on."""
import queue
import threading

import numpy as np
import torch


class EmbeddingWriter(threading.Thread):
    def __init__(self, out):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize=8)
        self.out = out

    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            offset, host, copied = item
            copied.synchronize()
            rows = host.numpy()
            self.out[offset:offset + len(rows)] = rows

    def finish(self):
        self.inbox.put(None)
        self.join()


class Exporter:
    def __init__(self, model, out):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.writer = EmbeddingWriter(out)
        self.writer.start()

    @torch.inference_mode()
    def export(self, batches):
        offset = 0
        for batch in batches:
            embedding = self.model(batch.cuda())
            self.stream.wait_stream(torch.cuda.current_stream())
            embedding.record_stream(self.stream)
            host = torch.empty(embedding.shape, dtype=embedding.dtype, pin_memory=True)
            with torch.cuda.stream(self.stream):
                host.copy_(embedding, non_blocking=True)
                copied = torch.cuda.Event()
                copied.record()
            self.writer.inbox.put((offset, host, copied))
            offset += len(batch)
        self.writer.finish()


def main(count=100, size=256, width=512):
    model = torch.nn.Sequential(torch.nn.Linear(128, width), torch.nn.Tanh()).cuda().eval()
    out = np.zeros((count * size, width), dtype=np.float32)
    Exporter(model, out).export(torch.randn(size, 128) for _ in range(count))
    print(np.abs(out).mean())


if __name__ == "__main__":
    main()
