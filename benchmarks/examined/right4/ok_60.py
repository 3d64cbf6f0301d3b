import threading

import torch


class Row:
    def __init__(self, batch):
        self.host = torch.empty(batch, dtype=torch.long, pin_memory=True)
        self.device = None
        self.copied = torch.cuda.Event()
        self.filled = threading.Event()
        self.drained = threading.Event()
        self.drained.set()


class TokenStreamer(threading.Thread):
    def __init__(self, batch, on_tokens):
        super().__init__(daemon=True)
        self.rows = [Row(batch) for _ in range(2)]
        self.on_tokens = on_tokens
        self.copies = torch.cuda.Stream()
        self.sent = 0
        self.closed = False

    def send(self, tokens):
        row = self.rows[self.sent % 2]
        self.sent += 1
        row.drained.wait()
        row.drained.clear()
        row.device = tokens
        self.copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copies):
            row.host.copy_(tokens, non_blocking=True)
            row.copied.record()
        row.filled.set()

    def finish(self):
        row = self.rows[self.sent % 2]
        row.drained.wait()
        self.closed = True
        row.filled.set()
        self.join()

    def run(self):
        turn = 0
        while True:
            row = self.rows[turn % 2]
            turn += 1
            row.filled.wait()
            if self.closed and row.device is None:
                return
            row.filled.clear()
            row.copied.synchronize()
            self.on_tokens(row.host.tolist())
            row.device = None
            row.drained.set()


@torch.inference_mode()
def generate(steps=100, batch=8, vocab=5000):
    texts = [[] for _ in range(batch)]
    streamer = TokenStreamer(batch, lambda ids: [t.append(i) for t, i in zip(texts, ids)])
    streamer.start()
    embed = torch.nn.Embedding(vocab, 128).cuda()
    tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
    for _ in range(steps):
        tokens = (embed(tokens) @ embed.weight.t()).softmax(-1).multinomial(1).squeeze(-1)
        streamer.send(tokens)
    streamer.finish()
    return texts
