from collections import OrderedDict

import torch
from torch import nn


class PrefixCache:
    """Encoded prefixes, filled on a side stream and looked up from anywhere."""

    def __init__(self, encoder, capacity=64):
        self.encoder = encoder
        self.capacity = capacity
        self.entries = OrderedDict()
        self.stream = torch.cuda.Stream()

    def warm(self, key, tokens):
        if key in self.entries:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        tokens.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            state = self.encoder(tokens)
        self.entries[key] = (state, self.stream.record_event())
        if len(self.entries) > self.capacity:
            self.entries.popitem(last=False)

    def get(self, key, tokens):
        hit = self.entries.get(key)
        current = torch.cuda.current_stream()
        if hit is not None:
            state, event = hit
            if not event.query():
                current.wait_event(event)
            state.record_stream(current)
            self.entries.move_to_end(key)
            return state
        return self.encoder(tokens)


class Encoder(nn.Module):
    def __init__(self, vocab=5000, dim=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, tokens):
        h = self.emb(tokens)
        return torch.tanh(self.mix(h)).cumsum(0)[-1]


@torch.inference_mode()
def main():
    cache = PrefixCache(Encoder().cuda())
    head = nn.Linear(256, 5000).cuda()
    prompts = {f"p{i}": torch.randint(0, 5000, (512,), device="cuda") for i in range(100)}
    order = [f"p{(i * 7) % 100}" for i in range(400)]
    tally = torch.zeros(5000, device="cuda")
    for now, upcoming in zip(order, order[1:]):
        cache.warm(upcoming, prompts[upcoming])
        tally += head(cache.get(now, prompts[now])).softmax(-1)
    print(tally.topk(5).indices.tolist())


if __name__ == "__main__":
    main()
