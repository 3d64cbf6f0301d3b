from collections import deque

import torch
import torch.nn as nn


class PendingTokens:
    """Tokens of one decode iteration together with the handle to wait for them."""

    def __init__(self, seq_ids, token_ids, d2h_stream):
        self.seq_ids = seq_ids
        self.token_ids = token_ids
        self.done = torch.cuda.Event()
        main = torch.cuda.current_stream()
        with torch.cuda.stream(d2h_stream):
            d2h_stream.wait_stream(main)
            self.host = torch.empty(token_ids.shape, dtype=token_ids.dtype, pin_memory=True)
            self.host.copy_(token_ids, non_blocking=True)
        self.done.record()

    def resolve(self):
        self.done.synchronize()
        return list(zip(self.seq_ids, self.host.tolist()))


class Engine:
    def __init__(self, vocab=50257, dim=768):
        self.wte = nn.Embedding(vocab, dim, device="cuda")
        self.lm_head = nn.Linear(dim, vocab, bias=False, device="cuda")
        self.d2h = torch.cuda.Stream()
        self.inflight = deque()

    @torch.no_grad()
    def launch(self, seq_ids, ids):
        scores = self.lm_head(self.wte(ids))
        nxt = torch.argmax(scores, dim=-1)
        self.inflight.append(PendingTokens(seq_ids, nxt, self.d2h))
        return nxt

    def collect(self):
        return self.inflight.popleft().resolve()


def main():
    eng = Engine()
    ids = torch.ones(4, dtype=torch.long, device="cuda")
    seqs = ["a", "b", "c", "d"]
    text = {s: [] for s in seqs}
    for step in range(32):
        ids = eng.launch(seqs, ids)
        if step:
            for s, t in eng.collect():
                text[s].append(t)
    for s, t in eng.collect():
        text[s].append(t)
    torch.cuda.synchronize()
    print(text)


if __name__ == "__main__":
    main()
