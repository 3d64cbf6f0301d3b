"""Future tokens: the next batch is built before the previous ids are known."""
import torch


class FutureMap:
    def __init__(self, size):
        self.buf = torch.zeros(size, dtype=torch.int64, device="cuda")

    def resolve(self, ids):
        return torch.where(ids < 0, self.buf[(-ids).clamp(min=0)], ids)

    def store(self, slots, tokens):
        self.buf[slots] = tokens


class TpWorker:
    def __init__(self, dim=1024, vocab=16000):
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / 32
        self.futures = FutureMap(1024)
        self.forward_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def launch(self, ids, slots):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            tokens = self.futures.resolve(ids)
            h = torch.tanh(self.emb[tokens] @ self.w)
            sampled = (h @ self.emb.T).argmax(-1)
            self.futures.store(slots, sampled)
            host = sampled.to("cpu", non_blocking=True)
            done = self.forward_stream.record_event()
        for t in (ids, slots):
            t.record_stream(self.forward_stream)
        return host, done


def main(steps=100, batch=32):
    worker = TpWorker()
    ids = torch.arange(batch, device="cuda")
    log, previous = [], None
    for step in range(steps):
        base = 1 + (step % 8) * batch
        slots = torch.arange(base, base + batch, device="cuda")
        result = worker.launch(ids, slots)
        if previous is not None:
            previous[1].synchronize()
            log.append(previous[0].tolist())
        previous = result
        ids = -slots
    previous[1].synchronize()
    log.append(previous[0].tolist())
    return log


if __name__ == "__main__":
    print(len(main()))
