"""fp32 master weights, bf16 working copy; the cast overlaps with the data pipeline."""
import copy

import torch
import torch.nn as nn


class MasterWeights:
    def __init__(self, model, optimizer_cls, **kwargs):
        self.work = list(model.parameters())
        self.master = [p.detach().float().clone() for p in self.work]
        self.optimizer = optimizer_cls(self.master, **kwargs)
        self.cast_stream = torch.cuda.Stream()
        self.cast_done = None
        model.register_forward_pre_hook(lambda *_: self.wait())

    def wait(self):
        if self.cast_done is not None:
            torch.cuda.current_stream().wait_event(self.cast_done)
            self.cast_done = None

    @torch.no_grad()
    def step(self):
        for m, w in zip(self.master, self.work):
            m.grad = w.grad.float()
            w.grad = None
        self.optimizer.step()
        self.cast_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.cast_stream):
            for m, w in zip(self.master, self.work):
                w.copy_(m)
        self.cast_done = self.cast_stream.record_event()


class Decoder(nn.Module):
    def __init__(self, vocab=16384, dim=768, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 12, 4 * dim, batch_first=True, norm_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(layer) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, mask):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h, src_mask=mask)
        return self.head(h)


def augment(ids, vocab):
    noise = torch.rand(ids.shape, device=ids.device) < 0.02
    return torch.where(noise, torch.randint_like(ids, vocab), ids)


def main(vocab=16384):
    model = Decoder(vocab).cuda().bfloat16()
    weights = MasterWeights(model, torch.optim.AdamW, lr=3e-4, betas=(0.9, 0.95))
    mask = nn.Transformer.generate_square_subsequent_mask(512, device="cuda", dtype=torch.bfloat16)
    for step in range(500):
        ids = torch.randint(0, vocab, (8, 513), device="cuda")
        inputs = augment(ids[:, :-1], vocab)
        loss = nn.functional.cross_entropy(model(inputs, mask).float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        weights.step()
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
