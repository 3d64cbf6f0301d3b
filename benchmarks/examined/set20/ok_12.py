"""Ship LoRA weight updates through one persistent transfer buffer."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class Bucket:
    entries: list
    last: bool


class TransferBuffer:
    def __init__(self, nbytes, device):
        self.storage = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.device = device


class WeightSender:
    def __init__(self, buffer, out_queue, ack_queue):
        self.buffer = buffer
        self.out_queue = out_queue
        self.ack_queue = ack_queue

    def _pack(self, items):
        entries, offset = [], 0
        for name, w in items:
            flat = w.detach().contiguous().view(-1).view(torch.uint8)
            self.buffer.storage[offset:offset + flat.numel()].copy_(flat)
            entries.append((name, offset, flat.numel(), tuple(w.shape), w.dtype))
            offset += -(-flat.numel() // 256) * 256
        return entries

    def _ship(self, items, last):
        entries = self._pack(items)
        torch.cuda.current_stream(self.buffer.device).synchronize()
        self.out_queue.put(Bucket(entries, last))
        self.ack_queue.get()

    def send(self, named_weights):
        capacity = self.buffer.storage.numel()
        items, used = [], 0
        for name, w in named_weights:
            need = -(-w.numel() * w.element_size() // 256) * 256
            if items and used + need > capacity:
                self._ship(items, False)
                items, used = [], 0
            items.append((name, w))
            used += need
        self._ship(items, True)


class WeightReceiver(threading.Thread):
    def __init__(self, buffer, in_queue, ack_queue, adapters):
        super().__init__(daemon=True)
        self.buffer = buffer
        self.in_queue = in_queue
        self.ack_queue = ack_queue
        self.adapters = adapters
        self.load_stream = torch.cuda.Stream(device=buffer.device)
        self.updated = torch.cuda.Event()

    def run(self):
        torch.cuda.set_device(self.buffer.device)
        last = False
        while not last:
            bucket = self.in_queue.get()
            with torch.cuda.stream(self.load_stream):
                for name, offset, nbytes, shape, dtype in bucket.entries:
                    src = self.buffer.storage[offset:offset + nbytes].view(dtype).view(shape)
                    self.adapters[name].copy_(src)
                self.updated.record(self.load_stream)
            self.updated.synchronize()
            last = bucket.last
            self.ack_queue.put(True)


def sync_weights(trainer_weights, adapters, buffer):
    """Update adapters in place from the trainer; serving is paused meanwhile."""
    torch.cuda.synchronize(buffer.device)
    buckets, acks = queue.Queue(), queue.Queue()
    receiver = WeightReceiver(buffer, buckets, acks, adapters)
    receiver.start()
    WeightSender(buffer, buckets, acks).send(trainer_weights)
    receiver.join()


def rl_loop(trainer, engine, steps, device=torch.device("cuda", 0)):
    buffer = TransferBuffer(512 << 20, device)
    for _ in range(steps):
        batch = engine.rollout()
        trainer.update(batch)
        sync_weights(trainer.lora_named_parameters(), engine.adapters, buffer)
