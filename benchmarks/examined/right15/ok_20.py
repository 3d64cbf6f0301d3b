"""Decoding loop that inspects sampled tokens one step after launching the next."""
import torch
from torch import nn


class TinyDecoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens, state):
        state = self.cell(self.embed(tokens), state)
        return self.head(state), state


class Generator:
    def __init__(self, model, width, eos, device):
        self.model = model.to(device).eval()
        self.width = width
        self.eos = eos
        self.device = torch.device(device)

    @torch.inference_mode()
    def generate(self, prompt, limit):
        batch = len(prompt)
        texts = [[] for _ in prompt]
        open_ = set(range(batch))
        host = [torch.empty(batch, dtype=torch.long, pin_memory=True) for _ in range(2)]
        copied = [torch.cuda.Event(), torch.cuda.Event()]
        tokens = torch.tensor(prompt, device=self.device)
        state = torch.zeros(batch, self.width, device=self.device)

        def accept(step):
            copied[step % 2].synchronize()
            for row, token in enumerate(host[step % 2].tolist()):
                if row not in open_:
                    continue
                if token == self.eos:
                    open_.discard(row)
                else:
                    texts[row].append(token)

        launched = 0
        for step in range(limit):
            logits, state = self.model(tokens, state)
            tokens = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
            host[step % 2].copy_(tokens, non_blocking=True)
            copied[step % 2].record()
            launched += 1
            if step:
                accept(step - 1)
                if not open_:
                    return texts
        if launched:
            accept(launched - 1)
        return texts


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    generator = Generator(TinyDecoder(64, 128), 128, eos=0, device=device)
    for text in generator.generate([5, 9, 11, 40], limit=50):
        print(len(text), text[:10])


if __name__ == "__main__":
    main()
