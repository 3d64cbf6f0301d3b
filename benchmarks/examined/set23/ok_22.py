"""Input preprocessing on its own stream, handed to the forward thread as packets."""
import collections
import queue
import threading

import torch


class InputPacket:
    def __init__(self, tensors, event, sources):
        self.tensors = tensors
        self.event = event
        self.sources = sources


class InputsMaker:
    def __init__(self, device):
        self.device = device
        self.out_stream = torch.cuda.Stream(device)
        self._retained = collections.deque()

    def _drop_finished(self):
        while self._retained and self._retained[0][0].query():
            self._retained.popleft()

    def make(self, batch):
        self._drop_finished()
        sources = {k: v.pin_memory() for k, v in batch.items()}
        with torch.cuda.stream(self.out_stream):
            tensors = {
                k: v.to(self.device, non_blocking=True) for k, v in sources.items()
            }
            event = torch.cuda.Event()
            event.record(self.out_stream)
        self._retained.append((event, sources))
        return InputPacket(tensors, event, sources)


class ForwardWorker(threading.Thread):
    def __init__(self, model, device):
        super().__init__(daemon=True)
        self.model = model
        self.device = device
        self.inbox = queue.Queue(maxsize=4)
        self.results = []

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream), torch.inference_mode():
            while True:
                packet = self.inbox.get()
                if packet is None:
                    break
                stream.wait_event(packet.event)
                for t in packet.tensors.values():
                    t.record_stream(stream)
                logits = self.model(**packet.tensors)
                self.results.append(logits.argmax(dim=-1).cpu())


def serve(model, batches, device=torch.device("cuda", 0)):
    torch.cuda.synchronize(device)
    maker = InputsMaker(device)
    worker = ForwardWorker(model, device)
    worker.start()
    for batch in batches:
        worker.inbox.put(maker.make(batch))
    worker.inbox.put(None)
    worker.join()
    return worker.results
