"""Prefill and decode threads of one process exchange KV through a shared device buffer."""
import queue
import threading

import torch


class Channel:
    def __init__(self, shape):
        self.buffer = torch.empty(shape, device="cuda")
        self.full = queue.Queue(1)
        self.ack = queue.Queue(1)


def prefill_worker(channel, prompts, weight):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for n in range(prompts):
            x = torch.randn(channel.buffer.shape, device="cuda")
            kv = torch.tanh(x @ weight)
            if n:
                stream.wait_event(channel.ack.get())
            channel.buffer.copy_(kv)
            channel.full.put(stream.record_event())
    stream.synchronize()


class DecodeWorker(threading.Thread):
    def __init__(self, channel, prompts, steps):
        super().__init__()
        self.channel, self.prompts, self.steps = channel, prompts, steps
        self.results = []

    def run(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(self.prompts):
                stream.wait_event(self.channel.full.get())
                kv = self.channel.buffer.clone()
                self.channel.ack.put(stream.record_event())
                q = torch.ones(1, kv.shape[1], device="cuda")
                for _ in range(self.steps):
                    q = (q @ kv.T).softmax(-1) @ kv
                self.results.append(q.sum().item())


def main(prompts=40, dim=512):
    weight = torch.randn(dim, dim, device="cuda") / 22
    channel = Channel((1024, dim))
    torch.cuda.synchronize()
    decode = DecodeWorker(channel, prompts, 32)
    prefill = threading.Thread(target=prefill_worker, args=(channel, prompts, weight))
    decode.start()
    prefill.start()
    prefill.join()
    decode.join()
    print(decode.results[:4])


if __name__ == "__main__":
    main()
