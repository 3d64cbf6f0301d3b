"""Collects sampled tokens and lengths of a decode step on the host."""
import torch


class StepOutput:
    def __init__(self, capacity, device):
        self.tokens = torch.empty(capacity, dtype=torch.int64, pin_memory=True)
        self.lens = torch.empty(capacity, dtype=torch.int32, pin_memory=True)
        self.event = torch.cuda.Event()
        self.size = 0
        self.pending = False

    def launch(self, tokens, lens):
        if self.pending:
            self.event.synchronize()
        n = tokens.numel()
        self.tokens[:n].copy_(tokens, non_blocking=True)
        self.lens[:n].copy_(lens, non_blocking=True)
        self.event.record()
        self.size = n
        self.pending = True

    def collect(self):
        if not self.pending:
            return [], []
        self.event.synchronize()
        self.pending = False
        return self.tokens[: self.size].tolist(), self.lens[: self.size].tolist()


class Decoder:
    def __init__(self, device, vocab=32000, width=1024):
        self.head = torch.nn.Linear(width, vocab, device=device)
        self.emb = torch.nn.Embedding(vocab, width, device=device)
        self.lens = torch.zeros(64, dtype=torch.int32, device=device)
        self.out = StepOutput(64, device)

    @torch.no_grad()
    def step(self, tokens):
        logits = self.head(self.emb(tokens))
        nxt = logits.argmax(dim=-1)
        self.lens.add_(1)
        self.out.launch(nxt, self.lens[: nxt.numel()])
        return nxt


def main():
    device = torch.device("cuda")
    dec = Decoder(device)
    tokens = torch.zeros(64, dtype=torch.int64, device=device)
    history = []
    for _ in range(16):
        tokens = dec.step(tokens)
        history.append(dec.out.collect())
    print(len(history), history[-1][1][:4])


if __name__ == "__main__":
    main()
