import torch
import torch.nn as nn


class LazyLogprobs:
    """Top-k log-probabilities that arrive on the host some time after the step."""

    def __init__(self, values, indices, stream):
        self._device = (values, indices)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._values = torch.empty(values.shape, pin_memory=True).copy_(values, non_blocking=True)
            self._indices = torch.empty(indices.shape, dtype=indices.dtype, pin_memory=True).copy_(
                indices, non_blocking=True
            )
            self._event = torch.cuda.Event()
            self._event.record()

    def _wait(self):
        if self._device is not None:
            self._event.synchronize()
            self._device = None

    @property
    def logprobs(self):
        self._wait()
        return self._values

    @property
    def token_ids(self):
        self._wait()
        return self._indices

    def __del__(self):
        self._wait()


class LogprobEngine:
    def __init__(self, vocab=32000, dim=512):
        self.net = nn.Sequential(nn.Embedding(vocab, dim), nn.Linear(dim, vocab)).cuda()
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def step(self, ids, k=5):
        logp = self.net(ids).log_softmax(-1)
        values, indices = logp.topk(k, dim=-1)
        return indices[:, 0], LazyLogprobs(values, indices, self.stream)


def main():
    engine = LogprobEngine()
    ids = torch.arange(8, device="cuda")
    records = []
    for _ in range(12):
        ids, lazy = engine.step(ids)
        records.append(lazy)
    for r in records:
        print(r.token_ids[0].tolist(), [round(v, 3) for v in r.logprobs[0].tolist()])


if __name__ == "__main__":
    main()
