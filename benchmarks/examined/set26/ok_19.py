import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch


def quantize_rows(weight, bits):
    maxq = 2 ** (bits - 1) - 1
    scales = weight.abs().amax(dim=1, keepdim=True) / maxq
    q = torch.clamp(torch.round(weight / scales), -maxq - 1, maxq).to(torch.int32)
    return q, scales


def pack_rows(q, bits):
    per_word = 32 // bits
    words = (q & (2 ** bits - 1)).view(q.shape[0], -1, per_word)
    shifts = torch.arange(per_word, device=q.device, dtype=torch.int32) * bits
    return (words << shifts).sum(dim=-1, dtype=torch.int32)


class QuantWorker(threading.Thread):
    def __init__(self, device, tasks, processor):
        super().__init__(daemon=True)
        self.device = device
        self.tasks = tasks
        self.processor = processor

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream), torch.inference_mode():
            while True:
                item = self.tasks.get()
                if item is None:
                    return
                name, weight = item
                q, scales = quantize_rows(weight.to(self.device).float(), self.processor.bits)
                ready = stream.record_event()
                self.processor.submit_finalize(name, self.device, q, scales, ready)


class GPTQProcessor:
    def __init__(self, devices, bits=4):
        self.bits = bits
        self.devices = devices
        self.finalizers = ThreadPoolExecutor(max_workers=len(devices))
        self.results = {}
        self.futures = []
        self.lock = threading.Lock()

    def _finalize(self, name, device, q, scales, ready):
        with torch.cuda.device(device), torch.inference_mode():
            torch.cuda.current_stream(device).wait_event(ready)
            packed = pack_rows(q, self.bits).cpu()
            host_scales = scales.half().cpu()
        with self.lock:
            self.results[name] = (packed, host_scales)

    def submit_finalize(self, name, device, q, scales, ready):
        future = self.finalizers.submit(self._finalize, name, device, q, scales, ready)
        with self.lock:
            self.futures.append(future)

    def process(self, layers):
        queues = [queue.Queue() for _ in self.devices]
        workers = [QuantWorker(d, q, self) for d, q in zip(self.devices, queues)]
        for w in workers:
            w.start()
        for i, (name, weight) in enumerate(layers.items()):
            queues[i % len(queues)].put((name, weight))
        for q in queues:
            q.put(None)
        for w in workers:
            w.join()
        for f in self.futures:
            f.result()
        return self.results


def main(state_dict):
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    return GPTQProcessor(devices).process(state_dict)
