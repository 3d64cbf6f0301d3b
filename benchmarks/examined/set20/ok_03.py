"""Streaming vocoder: talker produces code chunks, decode worker renders audio."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class CodeChunk:
    request_id: str
    codes: torch.Tensor
    ready: torch.cuda.Event
    is_last: bool


class Talker:
    def __init__(self, model, out_queue):
        self.model = model
        self.out_queue = out_queue
        self.codes_buf = None

    @torch.inference_mode()
    def run(self, requests, steps):
        for step in range(steps):
            logits = self.model.step([r.state for r in requests])
            if self.codes_buf is None:
                self.codes_buf = torch.empty(
                    logits.shape[:-1], dtype=torch.int64, device=logits.device
                )
            torch.argmax(logits, dim=-1, out=self.codes_buf)
            snapshot = self.codes_buf.clone()
            ready = torch.cuda.Event()
            ready.record()
            for i, r in enumerate(requests):
                self.out_queue.put(
                    CodeChunk(r.id, snapshot[i], ready, step == steps - 1)
                )
        self.out_queue.put(None)


class VocoderWorker(threading.Thread):
    def __init__(self, decoder, in_queue, sink, device, stride=8):
        super().__init__(daemon=True)
        self.decoder = decoder
        self.in_queue = in_queue
        self.sink = sink
        self.device = device
        self.stride = stride
        self.stream = torch.cuda.Stream(device=device)
        self.pending = {}

    def _decode(self, request_id, chunks):
        self.stream.wait_event(chunks[-1].ready)
        with torch.cuda.stream(self.stream):
            for c in chunks:
                c.codes.record_stream(self.stream)
            codes = torch.stack([c.codes for c in chunks])
            wav = self.decoder(codes)
            host = torch.empty(wav.shape, dtype=wav.dtype, pin_memory=True)
            host.copy_(wav, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        done.synchronize()
        self.sink(request_id, host.numpy().tobytes())

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            chunk = self.in_queue.get()
            if chunk is None:
                return
            chunks = self.pending.setdefault(chunk.request_id, [])
            chunks.append(chunk)
            if chunk.is_last or len(chunks) == self.stride:
                del self.pending[chunk.request_id]
                self._decode(chunk.request_id, chunks)


def synthesize(talker_model, decoder, requests, sink, steps=256):
    device = torch.device("cuda", 0)
    chunks = queue.Queue()
    decoder.to(device)
    torch.cuda.synchronize(device)
    worker = VocoderWorker(decoder, chunks, sink, device)
    worker.start()
    Talker(talker_model, chunks).run(requests, steps)
    worker.join()
