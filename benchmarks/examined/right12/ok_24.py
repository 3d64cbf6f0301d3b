import torch
from torch import nn


class StopFlags:
    def __init__(self, batch):
        self.host = [torch.empty(batch, dtype=torch.bool, pin_memory=True) for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]

    def post(self, step, finished):
        slot = step % 2
        self.host[slot].copy_(finished, non_blocking=True)
        self.events[slot].record()

    def all_done(self, step):
        slot = step % 2
        self.events[slot].synchronize()
        return bool(self.host[slot].all())


class TinyDecoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocab)

    def step(self, token, hidden):
        hidden = self.cell(self.embed(token), hidden)
        return self.head(hidden), hidden


class Generator:
    """Greedy decoding that checks the stop condition one step behind the device."""

    def __init__(self, model, eos, pad, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.model = model.to(self.device).eval()
        self.eos = eos
        self.pad = pad

    @torch.inference_mode()
    def generate(self, first, limit):
        batch = first.shape[0]
        if limit <= 0:
            return torch.empty(batch, 0, dtype=torch.long)
        flags = StopFlags(batch)
        token = first.to(self.device, non_blocking=True)
        hidden = torch.zeros(batch, self.model.cell.hidden_size, device=self.device)
        finished = torch.zeros(batch, dtype=torch.bool, device=self.device)
        pieces = []
        for step in range(limit):
            logits, hidden = self.model.step(token, hidden)
            token = logits.argmax(1)
            token = torch.where(finished, torch.full_like(token, self.pad), token)
            finished |= token == self.eos
            pieces.append(token)
            flags.post(step, finished)
            if step > 0 and flags.all_done(step - 1):
                pieces.pop()
                break
        return torch.stack(pieces, dim=1).cpu()

    def generate_text(self, prompts, table, limit=32):
        first = torch.tensor([table.index(prompt[-1]) for prompt in prompts]).pin_memory()
        rows = self.generate(first, limit).tolist()
        stop = {self.eos, self.pad}
        return [prompt + "".join(table[t] for t in row if t not in stop)
                for prompt, row in zip(prompts, rows)]


def main():
    torch.manual_seed(0)
    table = list("abcdefghijklmnopqrstuvwxyz .#")
    generator = Generator(TinyDecoder(len(table), 64), eos=table.index("."), pad=table.index("#"))
    print(generator.generate_text(["hello", "stream", "x"], table))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        print(generator.generate(torch.arange(8), 1).shape, generator.generate(torch.arange(8), 0).shape)


if __name__ == "__main__":
    main()
