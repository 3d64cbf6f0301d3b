import threading
from dataclasses import dataclass
from queue import Queue

import torch


@dataclass
class CodeChunk:
    request_id: str
    codes: torch.Tensor
    ready: torch.cuda.Event
    last: bool


class Talker:
    """Autoregressive codec-token model; emits a chunk of codes per request every few steps."""

    def __init__(self, model, vocoder_queue, stride):
        self.model = model
        self.queue = vocoder_queue
        self.stride = stride
        self.stream = torch.cuda.Stream()

    @torch.inference_mode()
    def run(self, requests, max_steps):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            state = self.model.init_state(len(requests))
            history = []
            for step in range(max_steps):
                codes, state = self.model.step(state)
                history.append(codes)
                last = step == max_steps - 1
                if len(history) == self.stride or last:
                    snapshot = torch.stack(history, dim=-1)
                    history.clear()
                    event = torch.cuda.Event()
                    event.record(self.stream)
                    for i, rid in enumerate(requests):
                        self.queue.put(CodeChunk(rid, snapshot[i], event, last))
                    del snapshot
        self.queue.put(None)


class Vocoder(threading.Thread):
    def __init__(self, decoder, queue, sink):
        super().__init__(daemon=True)
        self.decoder = decoder
        self.queue = queue
        self.sink = sink
        self.stream = torch.cuda.Stream()
        self.outputs = []

    def _flush(self, keep):
        while len(self.outputs) > keep:
            rid, host, done, last = self.outputs.pop(0)
            done.synchronize()
            self.sink(rid, host.numpy(), last)

    @torch.inference_mode()
    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                chunk = self.queue.get()
                if chunk is None:
                    break
                self.stream.wait_event(chunk.ready)
                padded = torch.nn.functional.pad(chunk.codes, (0, 4))
                wav = self.decoder(padded.unsqueeze(0))[0]
                host = torch.empty(wav.shape, dtype=wav.dtype, pin_memory=True)
                host.copy_(wav, non_blocking=True)
                done = torch.cuda.Event()
                done.record(self.stream)
                self.outputs.append((chunk.request_id, host, done, chunk.last))
                del chunk
                self._flush(keep=4)
            self._flush(keep=0)


def synthesize(model, decoder, requests, max_steps, sink, stride=8):
    queue = Queue()
    talker = Talker(model, queue, stride)
    vocoder = Vocoder(decoder, queue, sink)
    torch.cuda.synchronize()
    vocoder.start()
    talker.run(requests, max_steps)
    vocoder.join()
