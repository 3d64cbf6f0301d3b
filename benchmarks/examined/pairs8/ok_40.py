import queue
import threading

import torch
import torch.nn as nn


class Ticket:
    def __init__(self, batch, vocab):
        self.batch = batch
        self.launched = threading.Event()
        self.copied = torch.cuda.Event()
        self.tokens = torch.empty(batch.shape[0], dtype=torch.long, pin_memory=True)
        self.device_tokens = None

    def result(self):
        self.launched.wait()
        self.copied.synchronize()
        self.device_tokens = None
        return self.tokens.tolist()


class ForwardThread(threading.Thread):
    def __init__(self, vocab=8192, dim=512):
        super().__init__(daemon=True)
        self.net = nn.Sequential(nn.Embedding(vocab, dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, vocab)).cuda()
        self.stream = torch.cuda.Stream()
        self.work = queue.Queue()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def run(self):
        with torch.cuda.stream(self.stream):
            while (ticket := self.work.get()) is not None:
                ids = ticket.batch.to("cuda", non_blocking=True)
                ticket.device_tokens = self.net(ids).argmax(-1)
                ticket.tokens.copy_(ticket.device_tokens, non_blocking=True)
                ticket.copied.record()
                ticket.launched.set()


def main(n=40):
    worker = ForwardThread()
    worker.start()
    tickets = []
    for i in range(n):
        batch = torch.randint(0, 8192, (16,)).pin_memory()
        ticket = Ticket(batch, 8192)
        worker.work.put(ticket)
        tickets.append(ticket)
    for ticket in tickets:
        print(ticket.result()[:4])
    worker.work.put(None)
    worker.join()


if __name__ == "__main__":
    main()
