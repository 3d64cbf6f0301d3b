"""Token sampling with results fetched lazily."""
import torch


class PendingTokens:
    def __init__(self, host, event, finished):
        self._host = host
        self._event = event
        self._finished = finished
        self._value = None

    def ready(self):
        return self._value is not None or self._event.query()

    def get(self):
        if self._value is None:
            self._event.synchronize()
            self._value = self._host.tolist()
            self._host = None
        return self._value

    def __iter__(self):
        return iter(self.get())

    def live_rows(self):
        return [i for i, t in enumerate(self.get()) if t != self._finished]


class Sampler:
    def __init__(self, temperature=0.8, top_k=50, eos=2, device="cuda"):
        self.temperature = temperature
        self.top_k = top_k
        self.eos = eos
        self.device = torch.device(device)
        self.fetch = torch.cuda.Stream(self.device)

    def sample(self, logits):
        values, index = torch.topk(logits.float() / self.temperature, self.top_k, dim=-1)
        pick = torch.multinomial(values.softmax(dim=-1), 1)
        tokens = index.gather(-1, pick).squeeze(-1)
        host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
        self.fetch.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.fetch):
            host.copy_(tokens, non_blocking=True)
            event = torch.cuda.Event(blocking=True)
            event.record()
        tokens.record_stream(self.fetch)
        return tokens, PendingTokens(host, event, self.eos)


@torch.inference_mode()
def generate(model, prompt, limit=128):
    sampler = Sampler(device=prompt.device)
    sequences = [[] for _ in range(prompt.shape[0])]
    tokens, state, behind = prompt, None, None
    for _ in range(limit):
        logits, state = model(tokens, state)
        tokens, pending = sampler.sample(logits)
        tokens = tokens.unsqueeze(-1)
        if behind is not None:
            for seq, token in zip(sequences, behind):
                seq.append(token)
            if not behind.live_rows():
                break
        behind = pending
    else:
        if behind is not None:
            for seq, token in zip(sequences, behind.get()):
                seq.append(token)
    return sequences
