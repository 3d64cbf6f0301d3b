"""Weight streaming without CUDA IPC: buckets go through two pinned buffers and a ZeroMQ socket."""
import io

import torch
import zmq


class BucketSender:
    def __init__(self, socket, bucket_bytes):
        self.socket = socket
        self.bucket_bytes = bucket_bytes
        self.host = [torch.empty(bucket_bytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self.done = [torch.cuda.Event() for _ in range(2)]
        self.stream = torch.cuda.Stream()

    def _buckets(self, named_tensors):
        bucket, used = [], 0
        for name, t in named_tensors:
            nbytes = (t.numel() * t.element_size() + 255) // 256 * 256
            if bucket and used + nbytes > self.bucket_bytes:
                yield bucket
                bucket, used = [], 0
            bucket.append((name, t.detach().contiguous(), used))
            used += nbytes
        if bucket:
            yield bucket

    def _stage(self, slot, bucket):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _, t, offset in bucket:
                raw = t.view(-1).view(torch.uint8)
                self.host[slot][offset:offset + raw.numel()].copy_(raw, non_blocking=True)
                t.record_stream(self.stream)
            self.done[slot].record(self.stream)

    def _send(self, slot, bucket):
        self.done[slot].synchronize()
        payload = io.BytesIO()
        torch.save(
            {
                "meta": [(n, tuple(t.shape), t.dtype, off) for n, t, off in bucket],
                "data": self.host[slot].clone(),
            },
            payload,
        )
        self.socket.send(payload.getvalue())
        self.socket.recv()

    @torch.no_grad()
    def send(self, named_tensors):
        pending = None
        for i, bucket in enumerate(self._buckets(named_tensors)):
            slot = i % 2
            self._stage(slot, bucket)
            if pending is not None:
                self._send(*pending)
            pending = (slot, bucket)
        if pending is not None:
            self._send(*pending)
        self.socket.send(b"")
        self.socket.recv()


class BucketReceiver:
    def __init__(self, socket, model, device):
        self.socket = socket
        self.params = dict(model.named_parameters())
        self.device = torch.device(device)

    @torch.no_grad()
    def receive(self):
        while True:
            message = self.socket.recv()
            if not message:
                self.socket.send(b"")
                return
            bucket = torch.load(io.BytesIO(message))
            data = bucket["data"].to(self.device)
            for name, shape, dtype, offset in bucket["meta"]:
                param = self.params[name]
                nbytes = param.numel() * param.element_size()
                param.copy_(data[offset:offset + nbytes].view(dtype).view(shape))
            torch.cuda.current_stream(self.device).synchronize()
            self.socket.send(b"")


def refit(model, endpoint, bucket_bytes=256 << 20):
    context = zmq.Context.instance()
    socket = context.socket(zmq.REQ)
    socket.connect(endpoint)
    BucketSender(socket, bucket_bytes).send(model.named_parameters())
    socket.close()
