import torch
import torch.nn as nn


class GatedDeltaNet(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.decay = nn.Linear(dim, 1)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, state):
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        gate = torch.sigmoid(self.decay(x))[:, :, None]
        k = torch.nn.functional.normalize(k, dim=-1)
        state.mul_(gate).add_(k[:, :, None] * v[:, None, :])
        y = torch.einsum("bd,bde->be", q, state)
        return self.head(x + y)


class DecoderState:
    """Decodes with one shared state buffer that the graph updates in place."""

    def __init__(self, model, batch, dim):
        self.model = model
        self.ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.state = torch.zeros(batch, dim, dim, device="cuda")
        self.graph = None
        self.host = [torch.empty(batch, dtype=torch.long, pin_memory=True) for _ in range(2)]
        self.copied = [torch.cuda.Event() for _ in range(2)]

    def _step(self):
        logits = self.model(self.ids, self.state)
        self.ids.copy_(logits.argmax(-1))

    def _first_run(self):
        saved_state, saved_ids = self.state.clone(), self.ids.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.state.copy_(saved_state)
        self.ids.copy_(saved_ids)
        self.graph = graph

    @torch.inference_mode()
    def run(self, step):
        if self.graph is None:
            self._first_run()
        self.graph.replay()
        slot = step % 2
        self.host[slot].copy_(self.ids, non_blocking=True)
        self.copied[slot].record()

    def tokens(self, step):
        slot = step % 2
        self.copied[slot].synchronize()
        return self.host[slot].tolist()

    def reset(self, prompt):
        self.state.zero_()
        self.ids.copy_(prompt)


@torch.inference_mode()
def generate(decoder, prompt, length):
    decoder.reset(prompt)
    out = []
    decoder.run(0)
    for step in range(1, length):
        decoder.run(step)
        out.append(decoder.tokens(step - 1))
    out.append(decoder.tokens(length - 1))
    return out


def main():
    model = GatedDeltaNet(256, 8192).cuda().eval()
    decoder = DecoderState(model, 8, 256)
    for seed in range(3):
        prompt = torch.full((8,), seed, dtype=torch.long, device="cuda")
        print(generate(decoder, prompt, 32)[-1])


if __name__ == "__main__":
    main()
