import queue
import threading

import torch


class DecodeGraph:
    """One captured decode step: reads ``input_ids``, writes ``next_ids``."""

    def __init__(self, model, batch, stream):
        self.input_ids = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(2):
                model(self.input_ids)
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            self.next_ids = model(self.input_ids).argmax(dim=-1)
        torch.cuda.synchronize()


class AsyncTokenHandoff:
    """Submits decode graphs from a thread of its own; tokens reach the host later."""

    def __init__(self, model, batch, depth=2):
        self.device = torch.cuda.current_device()
        self.compute_stream = torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.decode = DecodeGraph(model, batch, self.compute_stream)
        self.relay = [torch.zeros_like(self.decode.next_ids) for _ in range(depth)]
        self.host = [
            torch.zeros(batch, dtype=torch.int64, pin_memory=True) for _ in range(depth)
        ]
        self.ready = [torch.cuda.Event(blocking=True) for _ in range(depth)]
        self.free = threading.Semaphore(depth)
        self.requests = queue.Queue()
        self.outputs = queue.Queue()
        self.thread = None

    def start(self, first_ids):
        self.decode.input_ids.copy_(first_ids)
        torch.cuda.synchronize()
        self.thread = threading.Thread(target=self._submit_loop, daemon=True)
        self.thread.start()

    def _submit_loop(self):
        torch.cuda.set_device(self.device)
        step = 0
        with torch.cuda.stream(self.compute_stream):
            while self.requests.get():
                self.free.acquire()
                slot = step % len(self.relay)
                self.decode.graph.replay()
                self.relay[slot].copy_(self.decode.next_ids)
                self.decode.input_ids.copy_(self.relay[slot])
                computed = self.compute_stream.record_event()
                with torch.cuda.stream(self.copy_stream):
                    self.copy_stream.wait_event(computed)
                    self.host[slot].copy_(self.relay[slot], non_blocking=True)
                    self.ready[slot].record(self.copy_stream)
                self.outputs.put(slot)
                step += 1
        self.outputs.put(None)

    def submit(self):
        self.requests.put(True)

    def materialize(self):
        slot = self.outputs.get()
        self.ready[slot].synchronize()
        tokens = self.host[slot].tolist()
        self.free.release()
        return tokens

    def close(self):
        self.requests.put(False)
        self.thread.join()


def generate(model, first_ids, max_new_tokens, eos):
    handoff = AsyncTokenHandoff(model, first_ids.numel())
    handoff.start(first_ids)
    sequences = [[] for _ in range(first_ids.numel())]
    handoff.submit()
    for _ in range(max_new_tokens - 1):
        handoff.submit()
        tokens = handoff.materialize()
        for seq, token in zip(sequences, tokens):
            seq.append(token)
        if all(eos in seq for seq in sequences):
            break
    for seq, token in zip(sequences, handoff.materialize()):
        seq.append(token)
    handoff.close()
    return sequences
