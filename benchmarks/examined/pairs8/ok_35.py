import torch
import torch.nn as nn


class GraphedDecodeStep:
    """Whole decode step as one graph: embed, write KV, attend, sample."""

    def __init__(self, vocab=4000, dim=128, max_len=256, bs=4):
        self.emb = nn.Embedding(vocab, dim).cuda()
        self.head = nn.Linear(dim, vocab).cuda()
        self.kv = torch.zeros(max_len, bs, dim, device="cuda")
        self.steps = torch.arange(max_len, device="cuda")
        self.pos = torch.zeros(1, dtype=torch.long, device="cuda")
        self.token = torch.zeros(bs, dtype=torch.long, device="cuda")
        self.next_token = torch.zeros(bs, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def _step(self):
        x = self.emb(self.token)
        self.kv.index_copy_(0, self.pos, x[None])
        valid = (self.steps <= self.pos)[:, None, None]
        ctx = (self.kv * valid).sum(0) / (self.pos + 1)
        self.next_token.copy_(self.head(torch.tanh(ctx)).argmax(-1))
        self.pos.add_(1)

    def reset(self):
        self.pos.zero_()
        self.kv.zero_()

    def __call__(self, token):
        self.token.copy_(token)
        self.graph.replay()
        return self.next_token.clone()


@torch.no_grad()
def main():
    step = GraphedDecodeStep()
    for prompt in range(3):
        step.reset()
        token = torch.full((4,), prompt, device="cuda")
        tokens = []
        for _ in range(64):
            token = step(token)
            tokens.append(token)
        print(torch.stack(tokens, 1).tolist()[0][:10])


if __name__ == "__main__":
    main()
