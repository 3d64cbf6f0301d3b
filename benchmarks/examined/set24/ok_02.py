import threading
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class InputPacket:
    inputs: dict
    h2d_event: torch.cuda.Event
    host_refs: list = field(default_factory=list)


class InputsMaker:
    """Runs in the preprocessing thread: builds host tensors and starts their upload."""

    def __init__(self, device):
        self.device = device
        self.out_stream = torch.cuda.Stream(device)
        self._retained = deque()

    def _retire(self):
        while self._retained and self._retained[0][0].query():
            self._retained.popleft()

    def make(self, seqs):
        self._retire()
        lens = [len(s) for s in seqs]
        input_ids = torch.tensor([t for s in seqs for t in s], dtype=torch.int64).pin_memory()
        seq_lens = torch.tensor(lens, dtype=torch.int32).pin_memory()
        host = {"input_ids": input_ids, "seq_lens": seq_lens}
        with torch.cuda.stream(self.out_stream):
            dev = {k: v.to(self.device, non_blocking=True) for k, v in host.items()}
            event = torch.cuda.Event()
            event.record(self.out_stream)
        self._retained.append((event, list(host.values())))
        return InputPacket(dev, event)


class ModelAgent:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def forward(self, packet: InputPacket):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(packet.h2d_event)
            for t in packet.inputs.values():
                t.record_stream(self.stream)
            logits = self.model(packet.inputs["input_ids"], packet.inputs["seq_lens"])
            next_ids = logits.argmax(-1)
            out = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
            out.copy_(next_ids, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.stream)
        return out, done


class Engine:
    def __init__(self, model, device="cuda"):
        self.maker = InputsMaker(torch.device(device))
        self.agent = ModelAgent(model, torch.device(device))
        self.packets = deque()
        self.cond = threading.Condition()
        torch.cuda.synchronize()

    def _produce(self, batches):
        for seqs in batches:
            packet = self.maker.make(seqs)
            with self.cond:
                self.packets.append(packet)
                self.cond.notify()
        with self.cond:
            self.packets.append(None)
            self.cond.notify()

    def run(self, batches):
        worker = threading.Thread(target=self._produce, args=(batches,), daemon=True)
        worker.start()
        pending = None
        while True:
            with self.cond:
                while not self.packets:
                    self.cond.wait()
                packet = self.packets.popleft()
            current = self.agent.forward(packet) if packet is not None else None
            if pending is not None:
                out, done = pending
                done.synchronize()
                yield out.tolist()
            pending = current
            if packet is None:
                break
        worker.join()
