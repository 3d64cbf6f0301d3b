import os
import queue
from concurrent.futures import ThreadPoolExecutor

import torch


class FlatBufferPool:
    """Pinned one-dimensional host buffers, reused by capacity."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.idle = queue.SimpleQueue()

    def take(self, numel):
        try:
            buf = self.idle.get_nowait()
        except queue.Empty:
            buf = None
        if buf is None or buf.numel() < numel:
            buf = torch.empty(max(numel, 1 << 20), dtype=self.dtype, pin_memory=True)
        return buf

    def give(self, buf):
        self.idle.put(buf)


class HiddenStateDumper:
    def __init__(self, out_dir, dtype=torch.bfloat16, workers=4):
        os.makedirs(out_dir, exist_ok=True)
        self.out_dir = out_dir
        self.pool = FlatBufferPool(dtype)
        self.stream = torch.cuda.Stream()
        self.writers = ThreadPoolExecutor(workers)
        self.pending = None
        self.futures = []

    def _write(self, rid, step, buf, shape):
        try:
            view = buf[: shape[0] * shape[1]].view(shape)
            torch.save(view.clone(), os.path.join(self.out_dir, f"{rid}-{step}.pt"))
        finally:
            self.pool.give(buf)

    def _finish_pending(self):
        if self.pending is None:
            return
        done, staged, _sources = self.pending
        self.pending = None
        done.synchronize()
        for rid, step, buf, shape in staged:
            self.futures.append(self.writers.submit(self._write, rid, step, buf, shape))

    def enqueue(self, step, finished):
        staged, sources = [], []
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for rid, hidden in finished:
                hidden = hidden.contiguous()
                buf = self.pool.take(hidden.numel())
                buf[: hidden.numel()].copy_(hidden.view(-1), non_blocking=True)
                staged.append((rid, step, buf, tuple(hidden.shape)))
                sources.append(hidden)
            done = torch.cuda.Event()
            done.record()
        self._finish_pending()
        self.pending = (done, staged, (sources, finished))

    def flush(self):
        self._finish_pending()
        for f in self.futures:
            f.result()
        self.futures.clear()


@torch.inference_mode()
def decode_loop(model, batch, steps, dumper):
    collected = {rid: [] for rid in batch.rids}
    for step in range(steps):
        hidden, logits = model(batch.ids, batch.positions)
        batch.advance(logits.argmax(dim=-1))
        for i, rid in enumerate(batch.rids):
            collected[rid].append(hidden[i])
        done = [(rid, torch.stack(collected.pop(rid))) for rid in batch.pop_finished() if rid in collected]
        if done:
            dumper.enqueue(step, done)
    dumper.flush()
