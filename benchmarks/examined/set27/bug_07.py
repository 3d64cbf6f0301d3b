import queue
import threading

import torch


class TransferBuffer:
    """The device buffer both sides of one weight sync work on."""

    def __init__(self, nbytes):
        self.data = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self.buckets = queue.Queue()
        self.acks = queue.Queue()


def plan_buckets(named_params, nbytes):
    bucket, offset = [], 0
    for name, p in named_params:
        size = p.numel() * p.element_size()
        if bucket and offset + size > nbytes:
            yield bucket
            bucket, offset = [], 0
        bucket.append((name, p, offset, size))
        offset += -(-size // 256) * 256
    if bucket:
        yield bucket


class BucketedWeightSender:
    def __init__(self, transfer):
        self.transfer = transfer
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def send(self, named_params):
        transfer = self.transfer
        self.stream.wait_stream(torch.cuda.current_stream())
        for i, bucket in enumerate(plan_buckets(named_params, transfer.data.numel())):
            if i > 0:
                transfer.acks.get()
            meta = []
            with torch.cuda.stream(self.stream):
                for name, p, offset, size in bucket:
                    src = p.detach().contiguous().view(-1).view(torch.uint8)
                    transfer.data[offset : offset + size].copy_(src)
                    meta.append((name, p.shape, p.dtype, offset, size))
                packed = self.stream.record_event()
            transfer.buckets.put((meta, packed))
        transfer.buckets.put(None)
        torch.cuda.current_stream().wait_stream(self.stream)


class BucketedWeightReceiver(threading.Thread):
    """Loads every bucket into the rollout model."""

    def __init__(self, transfer, rollout_params, device):
        super().__init__(daemon=True)
        self.transfer = transfer
        self.rollout_params = rollout_params
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.loaded = None

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream), torch.no_grad():
            while True:
                item = self.transfer.buckets.get()
                if item is None:
                    break
                meta, packed = item
                self.stream.wait_event(packed)
                end = max(offset + size for *_, offset, size in meta)
                staged = self.transfer.data[:end].clone()
                self.transfer.acks.put(True)
                self._load(meta, staged)
            self.loaded = self.stream.record_event()

    def _load(self, meta, staged):
        for name, shape, dtype, offset, size in meta:
            weight = staged[offset : offset + size].view(dtype).view(shape)
            target = self.rollout_params[name]
            if target.dtype == torch.float8_e4m3fn:
                weight = weight.float() / weight.abs().amax().float().clamp(min=1e-6) * 448.0
            target.data.copy_(weight)


def sync_weights(actor, rollout, bucket_bytes=512 << 20):
    transfer = TransferBuffer(bucket_bytes)
    receiver = BucketedWeightReceiver(
        transfer, dict(rollout.named_parameters()), torch.cuda.current_device()
    )
    receiver.stream.wait_stream(torch.cuda.current_stream())
    receiver.start()
    BucketedWeightSender(transfer).send(actor.named_parameters())
    receiver.join()
    torch.cuda.current_stream().wait_event(receiver.loaded)
    torch.cuda.synchronize()
