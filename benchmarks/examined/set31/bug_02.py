import torch

_NOISE_STREAM = None


def noise_stream():
    global _NOISE_STREAM
    if _NOISE_STREAM is None:
        _NOISE_STREAM = torch.cuda.Stream()
    return _NOISE_STREAM


def random_sample(probs, generators):
    stream = noise_stream()
    with torch.cuda.stream(stream):
        q = torch.empty(probs.shape, dtype=probs.dtype, device=probs.device)
        if len(generators) != probs.shape[0]:
            q.exponential_()
        for row, gen in generators.items():
            q[row].exponential_(generator=gen)
    torch.cuda.current_stream().wait_stream(stream)
    return probs.div_(q).argmax(dim=-1).view(-1)


class Decoder:
    def __init__(self, vocab=151936, width=2048):
        self.head = torch.nn.Linear(width, vocab, bias=False, device="cuda", dtype=torch.float16)
        self.embed = torch.nn.Embedding(vocab, width, device="cuda", dtype=torch.float16)

    @torch.no_grad()
    def generate(self, tokens, steps):
        out = []
        for _ in range(steps):
            logits = self.head(self.embed(tokens)).float()
            probs = torch.softmax(logits, dim=-1)
            tokens = random_sample(probs, {})
            out.append(tokens)
        return torch.stack(out, dim=1)


def main():
    dec = Decoder()
    first = torch.zeros(32, dtype=torch.long, device="cuda")
    print(dec.generate(first, 64).shape)


if __name__ == "__main__":
    main()
