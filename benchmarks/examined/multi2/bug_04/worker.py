import torch
from torch import nn

from outputs import PendingOutput


class TinyLM(nn.Module):
    def __init__(self, vocab=32000, dim=2048, depth=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.body = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        h = self.emb(ids)
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return self.head(h)


class DecodeWorker:
    def __init__(self, model, batch, temperature=0.8):
        self.model = model
        self.temperature = temperature
        self.last = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self.copy_stream = torch.cuda.Stream()
        self.batch = batch

    def reset(self):
        self.last = torch.zeros(self.batch, dtype=torch.int64, device="cuda")

    @torch.inference_mode()
    def step(self) -> PendingOutput:
        logits = self.model(self.last).float()
        probs = torch.softmax(logits / self.temperature, dim=-1)
        picked = torch.multinomial(probs, 1)
        logp = torch.log(probs.gather(1, picked)).squeeze(1)
        self.last = picked.squeeze(1)
        return PendingOutput(self.last, logp, self.copy_stream)
