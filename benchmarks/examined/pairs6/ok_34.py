"""Gradient caching for large contrastive batches: encode, differentiate the loss, replay encoders."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StreamChain:
    def __init__(self, *names):
        self.streams = {name: torch.cuda.Stream() for name in names}

    def after(self, name, *events):
        stream = self.streams[name]
        for event in events:
            stream.wait_event(event)
        return torch.cuda.stream(stream)

    def mark(self, name):
        return self.streams[name].record_event()


class GradCache:
    def __init__(self, encoder, chunk, temperature=0.05):
        self.encoder, self.chunk, self.temperature = encoder, chunk, temperature
        self.chain = StreamChain("loss", "stats")
        self.grad_norm = torch.zeros((), device="cuda")

    def _loss_grad(self, reps):
        leaf = reps.detach().requires_grad_()
        a, b = F.normalize(leaf, dim=-1).chunk(2)
        loss = F.cross_entropy(a @ b.t() / self.temperature, torch.arange(len(a), device=a.device))
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]

    def step(self, batch):
        main = torch.cuda.current_stream()
        chunks = batch.split(self.chunk)
        with torch.no_grad():
            reps = torch.cat([self.encoder(c) for c in chunks])
        with self.chain.after("loss", main.record_event()):
            loss, cache = self._loss_grad(reps)
        with self.chain.after("stats", self.chain.mark("loss")):
            self.grad_norm.copy_(cache.norm())
        main.wait_event(self.chain.mark("stats"))
        for tensor in (loss, cache):
            tensor.record_stream(main)
        for c, g in zip(chunks, cache.split(self.chunk)):
            self.encoder(c).backward(g)
        return loss


def main():
    encoder = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 256)).cuda()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=2e-5)
    cache = GradCache(encoder, chunk=512)
    torch.cuda.synchronize()
    for step in range(200):
        anchors = torch.randn(4096, 768, device="cuda")
        loss = cache.step(torch.cat([anchors, anchors + 0.1 * torch.randn_like(anchors)]))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 20 == 0:
            print(step, loss.item(), cache.grad_norm.item())


if __name__ == "__main__":
    main()
