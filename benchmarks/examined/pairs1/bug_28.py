"""Captured verification step of a speculative decoder."""
import torch


class VerifyInputs:
    def __init__(self, batch, k, dim):
        self.draft_ids = torch.zeros(batch, k, dtype=torch.int64, device="cuda")
        self.hidden = torch.zeros(batch, k, dim, device="cuda")


class VerifyGraph:
    def __init__(self, batch=16, k=4, dim=512, vocab=16000):
        self.emb = torch.randn(vocab, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") / 22
        self.head = torch.randn(dim, vocab, device="cuda")
        self.inputs = VerifyInputs(batch, k, dim)
        self.accepted = None
        self.graph = None

    def _forward(self):
        x = self.inputs
        h = torch.tanh((self.emb[x.draft_ids] + x.hidden) @ self.w)
        target = (h @ self.head).argmax(-1)
        return (target == x.draft_ids).int().cumprod(-1).sum(-1)

    def capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self._forward()
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.accepted = self._forward()

    def verify(self, draft_ids, hidden):
        self.inputs.hidden.copy_(hidden)
        self.inputs.draft_ids = draft_ids.contiguous()
        self.graph.replay()
        return self.accepted.clone()


@torch.inference_mode()
def main(rounds=100):
    verifier = VerifyGraph()
    verifier.capture()
    total = torch.zeros(16, dtype=torch.int64, device="cuda")
    for _ in range(rounds):
        drafts = torch.randint(0, 16000, (16, 4), device="cuda")
        total += verifier.verify(drafts, torch.randn(16, 4, 512, device="cuda"))
    print(total.tolist())


if __name__ == "__main__":
    main()
