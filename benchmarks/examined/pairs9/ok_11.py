"""Token loader: a reader thread fills pinned buffers that the trainer uploads."""
import queue
import threading

import numpy as np
import torch
from torch import nn


class TokenReader(threading.Thread):
    def __init__(self, tokens, batch, seq, n_buffers=3):
        super().__init__(daemon=True)
        self.tokens = tokens
        self.batch, self.seq = batch, seq
        self.vacant = queue.Queue()
        self.filled = queue.Queue()
        for _ in range(n_buffers):
            buf = torch.empty(batch, seq + 1, dtype=torch.int64, pin_memory=True)
            self.vacant.put((buf, None))

    def run(self):
        span = self.batch * (self.seq + 1)
        for start in range(0, len(self.tokens) - span, span):
            buf, uploaded = self.vacant.get()
            if uploaded is not None:
                uploaded.synchronize()
            chunk = self.tokens[start:start + span].reshape(self.batch, self.seq + 1)
            np.copyto(buf.numpy(), chunk)
            self.filled.put(buf)
        self.filled.put(None)

    def batches(self, device):
        while (buf := self.filled.get()) is not None:
            block = buf.to(device, non_blocking=True)
            uploaded = torch.cuda.Event()
            uploaded.record()
            self.vacant.put((buf, uploaded))
            yield block[:, :-1], block[:, 1:]


class TinyLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, target):
        h, _ = self.rnn(self.embed(ids))
        return nn.functional.cross_entropy(self.head(h).flatten(0, 1), target.flatten())


def main():
    tokens = np.random.default_rng(0).integers(0, 4096, 2_000_000)
    reader = TokenReader(tokens, batch=16, seq=256)
    reader.start()
    model = TinyLM(4096, 256).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step, (ids, target) in enumerate(reader.batches("cuda")):
        loss = model(ids, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
