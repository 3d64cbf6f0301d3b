"""Chunked prefill feeds a decode thread through one handoff tensor."""
import queue
import threading

import torch


class Handoff:
    def __init__(self, tokens, dim):
        self.kv = torch.empty(tokens, dim, device="cuda")
        self.items = queue.Queue(maxsize=1)

    def send(self, rid, kv):
        self.kv.copy_(kv)
        event = torch.cuda.Event()
        event.record()
        self.items.put((rid, event))

    def receive(self):
        item = self.items.get()
        if item is None:
            return None
        rid, event = item
        torch.cuda.current_stream().wait_event(event)
        return rid, self.kv


class PrefillThread(threading.Thread):
    def __init__(self, handoff, weights, requests):
        super().__init__(name="prefill")
        self.handoff, self.weights, self.requests = handoff, weights, requests

    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for rid in range(self.requests):
                h = torch.randn(self.handoff.kv.shape, device="cuda")
                for w in self.weights:
                    h = torch.tanh(h @ w)
                self.handoff.send(rid, h)
        stream.synchronize()
        self.handoff.items.put(None)


def decode_loop(handoff, steps):
    answers = {}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while (item := handoff.receive()) is not None:
            rid, kv = item
            q = torch.ones(4, kv.shape[1], device="cuda")
            for _ in range(steps):
                q = (q @ kv.T).softmax(-1) @ kv
            answers[rid] = q.mean()
    stream.synchronize()
    return {k: v.item() for k, v in answers.items()}


def main(requests=64, dim=768):
    weights = [torch.randn(dim, dim, device="cuda") / 28 for _ in range(4)]
    handoff = Handoff(2048, dim)
    torch.cuda.synchronize()
    prefill = PrefillThread(handoff, weights, requests)
    prefill.start()
    print(len(decode_loop(handoff, 64)))
    prefill.join()


if __name__ == "__main__":
    main()
