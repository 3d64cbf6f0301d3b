import torch


class MicroBatch:
    def __init__(self, tokens, positions):
        self.tokens = tokens.pin_memory()
        self.positions = positions.pin_memory()

    def __len__(self):
        return self.tokens.numel()


def split(tokens, n_ubatch):
    for start in range(0, tokens.numel(), n_ubatch):
        part = tokens[start : start + n_ubatch]
        yield MicroBatch(part, torch.arange(start, start + part.numel()))


class LlamaContext:
    def __init__(self, model, n_ubatch, device="cuda"):
        self.model = model.to(device).eval()
        self.n_ubatch = n_ubatch
        self.device = torch.device(device)
        self.inp_tokens = torch.zeros(n_ubatch, dtype=torch.long, device=self.device)
        self.inp_pos = torch.zeros(n_ubatch, dtype=torch.long, device=self.device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.compute_stream = torch.cuda.Stream(self.device)
        self.uploaded = torch.cuda.Event()
        torch.cuda.synchronize(self.device)

    def _set_inputs(self, ubatch):
        n = len(ubatch)
        with torch.cuda.stream(self.copy_stream):
            self.inp_tokens[:n].copy_(ubatch.tokens, non_blocking=True)
            self.inp_pos[:n].copy_(ubatch.positions, non_blocking=True)
            self.uploaded.record(self.copy_stream)

    def _graph_compute(self, n):
        self.compute_stream.wait_event(self.uploaded)
        with torch.cuda.stream(self.compute_stream):
            hidden = self.model.embed(self.inp_tokens[:n])
            for layer in self.model.layers:
                hidden = layer(hidden, self.inp_pos[:n])
            return self.model.norm(hidden)

    @torch.no_grad()
    def decode(self, tokens):
        outputs, keep = [], []
        for ubatch in split(tokens, self.n_ubatch):
            keep.append(ubatch)
            self._set_inputs(ubatch)
            outputs.append(self._graph_compute(len(ubatch)))
        with torch.cuda.stream(self.compute_stream):
            logits = self.model.head(torch.cat(outputs)[-1:])
        self.compute_stream.synchronize()
        return logits.cpu()


def generate(context, prompt, steps):
    tokens = list(prompt)
    logits = context.decode(torch.tensor(tokens))
    for _ in range(steps):
        token = int(logits.argmax())
        tokens.append(token)
        logits = context.decode(torch.tensor([token]))
    return tokens
