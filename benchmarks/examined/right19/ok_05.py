import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Ticket:
    uid: int
    spectrum: torch.Tensor
    ready: torch.cuda.Event


class Scorer(nn.Module):
    def __init__(self, bins=257, hidden=512):
        super().__init__()
        self.a = nn.Linear(bins, hidden)
        self.b = nn.Linear(hidden, hidden)
        self.c = nn.Linear(hidden, 2)

    def forward(self, mag):
        h = F.relu(self.a(torch.log1p(mag)))
        h = F.relu(self.b(h)).mean(dim=1)
        return self.c(h)


class Worker(threading.Thread):
    def __init__(self, model, inbox, outbox):
        super().__init__(daemon=True)
        self.model = model
        self.inbox = inbox
        self.outbox = outbox
        self.stream = torch.cuda.Stream()
        self.host = torch.empty(64, 2, pin_memory=True)

    @torch.no_grad()
    def run(self):
        while True:
            ticket = self.inbox.get()
            if ticket is None:
                return
            n = ticket.spectrum.size(0)
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(ticket.ready)
                ticket.spectrum.record_stream(self.stream)
                scores = self.model(ticket.spectrum).softmax(dim=-1)
                self.host[:n].copy_(scores, non_blocking=True)
            self.stream.synchronize()
            self.outbox.put((ticket.uid, self.host[:n, 1].tolist()))


class Frontend:
    def __init__(self, inbox, n_fft=512):
        self.inbox = inbox
        self.n_fft = n_fft
        self.window = torch.hann_window(n_fft, device="cuda")

    def submit(self, uid, wave):
        wave = wave.cuda()
        spec = torch.stft(wave, self.n_fft, window=self.window, return_complex=True)
        mag = spec.abs().transpose(1, 2).contiguous()
        ready = torch.cuda.Event()
        ready.record()
        self.inbox.put(Ticket(uid, mag, ready))


def main(n_workers=4, n_items=200):
    inbox = queue.Queue(maxsize=16)
    outbox = queue.Queue()
    model = Scorer().cuda().eval()
    torch.cuda.synchronize()
    workers = [Worker(model, inbox, outbox) for _ in range(n_workers)]
    for w in workers:
        w.start()

    frontend = Frontend(inbox)
    for uid in range(n_items):
        frontend.submit(uid, torch.randn(1 + uid % 64, 16000))
    for _ in workers:
        inbox.put(None)
    for w in workers:
        w.join()

    best = {}
    while not outbox.empty():
        uid, probs = outbox.get()
        best[uid] = max(probs)
    print(len(best), max(best.values()))


if __name__ == "__main__":
    main()
