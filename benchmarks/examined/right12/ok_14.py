import io
import queue
import struct
import threading

import torch
from torch import nn


class Sink:
    def __init__(self):
        self.data = io.BytesIO()
        self.frames = 0

    def send(self, request, layer, payload):
        self.data.write(struct.pack("<III", request, layer, len(payload)))
        self.data.write(payload)
        self.frames += 1


class LayerExporter:
    """Ships per-layer keys and values to a sink while later layers still run."""

    def __init__(self, sink, device):
        self.sink = sink
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.outbox = queue.Queue(maxsize=16)
        self.failure = None
        self.thread = threading.Thread(target=self._send_loop, daemon=True)
        self.thread.start()

    def export(self, request, layer, key, value):
        if self.failure is not None:
            raise self.failure
        produced = torch.cuda.current_stream(self.device).record_event()
        host = torch.empty((2,) + tuple(key.shape), dtype=key.dtype, pin_memory=True)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(produced)
            host[0].copy_(key, non_blocking=True)
            host[1].copy_(value, non_blocking=True)
            copied = self.stream.record_event()
        key.record_stream(self.stream)
        value.record_stream(self.stream)
        self.outbox.put((request, layer, host, copied))

    def _send_loop(self):
        while True:
            item = self.outbox.get()
            try:
                if item is None:
                    return
                if self.failure is None:
                    request, layer, host, copied = item
                    copied.synchronize()
                    self.sink.send(request, layer, host.numpy().tobytes())
            except Exception as exc:
                self.failure = exc
            finally:
                self.outbox.task_done()

    def flush(self):
        self.outbox.join()
        if self.failure is not None:
            raise self.failure

    def close(self):
        self.outbox.put(None)
        self.thread.join()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, emit):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = (part.transpose(1, 2).contiguous() for part in qkv.unbind(2))
        emit(k, v)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.proj(out.transpose(1, 2).reshape(batch, length, width))


@torch.inference_mode()
def prefill(layers, x, request, exporter):
    for index, layer in enumerate(layers):
        x = layer(x, lambda k, v: exporter.export(request, index, k, v))
    return x[:, -1]


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    layers = nn.ModuleList([Attention(256, 4) for _ in range(6)]).to(device).half()
    sink = Sink()
    exporter = LayerExporter(sink, device)
    try:
        for request in range(5):
            x = torch.randn(1, 64 + 32 * request, 256, device=device, dtype=torch.float16)
            last = prefill(layers, x, request, exporter)
        exporter.flush()
    finally:
        exporter.close()
    print(sink.frames, len(sink.data.getvalue()), tuple(last.shape))


if __name__ == "__main__":
    main()
