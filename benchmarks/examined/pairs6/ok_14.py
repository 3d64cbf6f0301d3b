"""Graph of one micro batch, gradient accumulation over several replays, eager optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MicroBatchGraph:
    def __init__(self, model, batch, length, vocab):
        self.model = model
        self.tokens = torch.zeros(batch, length + 1, dtype=torch.long, device="cuda")
        self.total = torch.zeros((), device="cuda")
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._forward_backward()
        self.reset()

    def _forward_backward(self):
        logits = self.model(self.tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
        loss.backward()
        self.total.add_(loss.detach())

    def reset(self):
        self.total.zero_()
        for p in self.model.parameters():
            p.grad.zero_()

    def run(self, tokens):
        self.tokens.copy_(tokens)
        self.graph.replay()


def main(accumulate=8, vocab=8192):
    model = nn.Sequential(nn.Embedding(vocab, 512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, vocab)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    micro = MicroBatchGraph(model, 4, 256, vocab)
    for step in range(200):
        for _ in range(accumulate):
            micro.run(torch.randint(0, vocab, (4, 257)))
        grads = [p.grad for p in model.parameters()]
        torch._foreach_div_(grads, accumulate)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(step, micro.total.item() / accumulate)
        micro.reset()


if __name__ == "__main__":
    main()
