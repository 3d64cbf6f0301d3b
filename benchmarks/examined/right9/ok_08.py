from collections import deque

import torch
from torch import nn


class AsyncSample:
    def __init__(self, sampled, copy_stream):
        self._sampled = sampled
        self._event = torch.cuda.Event()
        producer = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(producer)
            self._host = sampled.to("cpu", non_blocking=True)
            self._event.record()

    @property
    def token_ids(self):
        self._event.synchronize()
        self._sampled = None
        return self._host.tolist()


class TinyLM(nn.Module):
    def __init__(self, vocab=32000, dim=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens, state):
        state = self.rnn(self.emb(tokens), state)
        return self.head(state), state


class Runner:
    def __init__(self, model, batch, dim=512):
        self.model = model
        self.state = torch.zeros(batch, dim, device="cuda")
        self.tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.copy_stream = torch.cuda.Stream()

    def execute(self):
        logits, self.state = self.model(self.tokens, self.state)
        probs = torch.softmax(logits / 0.8, dim=-1)
        self.tokens = torch.multinomial(probs, 1).squeeze(1)
        return AsyncSample(self.tokens, self.copy_stream)


@torch.inference_mode()
def generate(batch=64, length=128):
    runner = Runner(TinyLM().cuda().eval(), batch)
    texts = [[] for _ in range(batch)]
    inflight = deque()

    def collect():
        for text, tok in zip(texts, inflight.popleft().token_ids):
            text.append(tok)

    for _ in range(length):
        inflight.append(runner.execute())
        if len(inflight) > 1:
            collect()
    while inflight:
        collect()
    return texts


if __name__ == "__main__":
    print(generate()[0])
