import torch


class LazyHost:
    """Host value fetched on first access."""

    def __init__(self, *tensors):
        self._tensors = tensors
        self._host = None
        self._event = None

    def start(self, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._host = [t.to("cpu", non_blocking=True) for t in self._tensors]
            self._event = stream.record_event()
        return self

    @property
    def value(self):
        if self._event is not None:
            self._event.synchronize()
            self._event = self._tensors = None
        return self._host


class Completion:
    def __init__(self):
        self.steps = []

    def add(self, lazy):
        self.steps.append(lazy)

    @property
    def tokens(self):
        return [int(s.value[0][0]) for s in self.steps]

    @property
    def logprobs(self):
        return [dict(zip(s.value[2].tolist(), s.value[1].tolist())) for s in self.steps]


class LogprobSampler:
    def __init__(self, k):
        self.k = k
        self.copies = torch.cuda.Stream()

    def __call__(self, logits):
        logp = logits.log_softmax(-1)
        top, index = logp.topk(self.k)
        token = torch.multinomial(logp.exp(), 1)
        return token, LazyHost(token, top, index).start(self.copies)


@torch.inference_mode()
def generate(steps, vocab=32_000, k=5):
    embed = torch.nn.Embedding(vocab, 256).cuda()
    sampler, completion = LogprobSampler(k), Completion()
    token = torch.zeros(1, dtype=torch.long, device="cuda")
    for _ in range(steps):
        token, lazy = sampler((embed(token) @ embed.weight.t()).squeeze(0))
        completion.add(lazy)
    return completion


if __name__ == "__main__":
    done = generate(40)
    print(done.tokens, done.logprobs[-1])
