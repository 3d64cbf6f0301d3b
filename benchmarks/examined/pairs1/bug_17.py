"""Draft model of a speculative decoder, captured once and replayed beside the target."""
import torch


class DraftGraph:
    def __init__(self, batch=32, dim=1024, vocab=16000, k=3):
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / 32
        self.k = k
        self.last_ids = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.drafts = torch.zeros(batch, k, dtype=torch.int64, device="cuda")
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _forward(self):
        h = self.emb[self.last_ids]
        for i in range(self.k):
            h = torch.tanh(h @ self.w)
            self.drafts[:, i].copy_((h @ self.emb.T).argmax(-1))

    def _capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._forward()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._forward()
        torch.cuda.synchronize()

    def propose(self, last_ids):
        self.last_ids.copy_(last_ids)
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.finished.record()
        torch.cuda.current_stream().wait_event(self.finished)
        return self.drafts.clone()


class Target:
    def __init__(self, dim=2048, vocab=16000, depth=12):
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.layers = [torch.randn(dim, dim, device="cuda") / 45 for _ in range(depth)]

    def verify(self, last, drafts):
        h = self.emb[torch.cat([last[:, None], drafts], 1)]
        for w in self.layers:
            h = torch.tanh(h @ w)
        best = (h @ self.emb.T).argmax(-1)
        hits = (best[:, :-1] == drafts).int().cumprod(-1).sum(-1)
        return best.gather(1, hits[:, None]).squeeze(1)


@torch.inference_mode()
def main(rounds=100):
    target, draft = Target(), DraftGraph()
    last = torch.arange(32, device="cuda")
    for _ in range(rounds):
        last = target.verify(last, draft.propose(last))
    print(last.tolist())


if __name__ == "__main__":
    main()
