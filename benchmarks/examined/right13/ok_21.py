"""Decode loop that checks for end-of-sequence one token behind the device."""
import torch


class TokenMailbox:
    def __init__(self, batch, device):
        self.stream = torch.cuda.Stream(device)
        self.letters = [torch.empty(batch, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.posted = [torch.cuda.Event(), torch.cuda.Event()]

    def post(self, step, tokens):
        k = step & 1
        produced = torch.cuda.current_stream(tokens.device).record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(produced)
            self.letters[k].copy_(tokens, non_blocking=True)
            self.posted[k].record()

    def read(self, step):
        k = step & 1
        self.posted[k].synchronize()
        return self.letters[k].tolist()


class Decoder:
    def __init__(self, model, eos, max_len, device="cuda"):
        self.model = model.eval()
        self.eos = eos
        self.max_len = max_len
        self.device = torch.device(device)

    def _accept(self, outputs, finished, tokens):
        for i, t in enumerate(tokens):
            if not finished[i]:
                outputs[i].append(t)
                finished[i] = t == self.eos
        return all(finished)

    @torch.inference_mode()
    def generate(self, prompt):
        batch, start = prompt.shape
        grid = torch.zeros(batch, start + self.max_len, dtype=torch.int64, device=self.device)
        grid[:, :start] = prompt.to(self.device)
        mailbox = TokenMailbox(batch, self.device)
        outputs = [[] for _ in range(batch)]
        finished = [False] * batch
        history = []
        try:
            for step in range(self.max_len):
                length = start + step
                logits = self.model(grid[:, :length])[:, -1]
                tokens = logits.argmax(dim=-1)
                grid[:, length] = tokens
                history.append(tokens)
                if step and self._accept(outputs, finished, mailbox.read(step - 1)):
                    return outputs
                mailbox.post(step, tokens)
            if self.max_len:
                self._accept(outputs, finished, mailbox.read(self.max_len - 1))
            return outputs
        finally:
            mailbox.stream.synchronize()


class TinyLM(torch.nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.mix = torch.nn.GRU(dim, dim, batch_first=True)
        self.head = torch.nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.mix(self.embed(ids))
        return self.head(h)


if __name__ == "__main__":
    lm = TinyLM(500, 64).cuda()
    print(Decoder(lm, eos=3, max_len=40).generate(torch.randint(0, 500, (4, 7))))
