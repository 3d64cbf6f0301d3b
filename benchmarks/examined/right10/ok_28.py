"""A worker process group of one: everything in the inference thread lives on one private stream."""
import queue
import threading

import torch
from torch import nn


class Engine(threading.Thread):
    def __init__(self, model: nn.Module):
        super().__init__(daemon=True)
        self.model = model
        self.inbox: queue.Queue = queue.Queue()
        torch.cuda.synchronize()

    def run(self):
        torch.cuda.set_device(0)
        stream = torch.cuda.Stream()
        torch.cuda.set_stream(stream)
        with torch.inference_mode():
            while True:
                item = self.inbox.get()
                if item is None:
                    break
                rows, reply = item
                x = torch.as_tensor(rows, dtype=torch.float32).pin_memory().to("cuda", non_blocking=True)
                y = self.model(x).topk(3, dim=-1)
                reply.put((y.indices.tolist(), y.values.cpu()))
        stream.synchronize()

    def ask(self, rows):
        reply: queue.Queue = queue.Queue(1)
        self.inbox.put((rows, reply))
        return reply.get()


def main():
    model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 50)).cuda().eval()
    engine = Engine(model)
    engine.start()
    clients, answers = [], []
    lock = threading.Lock()

    def client(seed):
        g = torch.Generator().manual_seed(seed)
        for _ in range(10):
            idx, val = engine.ask(torch.rand(4, 16, generator=g).tolist())
            with lock:
                answers.append((idx[0], float(val[0, 0])))

    for k in range(4):
        clients.append(threading.Thread(target=client, args=(k,)))
        clients[-1].start()
    for c in clients:
        c.join()
    engine.inbox.put(None)
    engine.join()
    print(len(answers), answers[0])


if __name__ == "__main__":
    main()
