import torch
from torch import nn


class GRULM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        return self.head(self.gru(self.emb(tokens))[0])


class Drafter:
    """Proposes continuations on its own stream into two alternating buffers."""

    def __init__(self, model, length):
        self.model = model
        self.length = length
        self.stream = torch.cuda.Stream()
        self.buffers = [torch.zeros(1, length, dtype=torch.long, device="cuda") for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def propose(self, context):
        self.stream.wait_stream(torch.cuda.current_stream())
        self.turn ^= 1
        out = self.buffers[self.turn]
        context.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            seq = context
            for i in range(self.length):
                nxt = self.model(seq)[:, -1].argmax(-1, keepdim=True)
                out[:, i : i + 1].copy_(nxt)
                seq = torch.cat([seq, nxt], 1)
            self.events[self.turn].record()
        return self.turn

    def fetch(self, ticket):
        torch.cuda.current_stream().wait_event(self.events[ticket])
        return self.buffers[ticket]


@torch.inference_mode()
def decode(prompt, total, k=4):
    vocab = 1000
    target = GRULM(vocab, 512).cuda().eval()
    drafter = Drafter(GRULM(vocab, 64).cuda().eval(), k)
    seq = prompt.cuda()
    accepted = []
    while seq.shape[1] < total:
        ticket = drafter.propose(seq)
        prefix = target(seq)[:, -1:].argmax(-1)
        draft = drafter.fetch(ticket)
        verified = target(torch.cat([seq, draft], 1))[:, seq.shape[1] - 1 :].argmax(-1)
        match = (verified[:, :-1] == draft).long().cumprod(1)
        n = int(match.sum())
        accepted.append(n)
        fresh = torch.cat([draft[:, :n], verified[:, n : n + 1]], 1)
        fresh[:, :1] = torch.where(match[:, :1] > 0, fresh[:, :1], prefix)
        seq = torch.cat([seq, fresh], 1)
    return seq.tolist(), sum(accepted) / len(accepted)


if __name__ == "__main__":
    print(decode(torch.randint(0, 1000, (1, 8)), 128))
