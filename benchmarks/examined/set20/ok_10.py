"""Guided decoding: matchers consume sampled ids copied on a secondary stream."""
import torch


class GuidedDecoding:
    def __init__(self, max_batch, vocab_size, device, phases=2):
        self.vocab_size = vocab_size
        self.device = device
        words = (vocab_size + 31) // 32
        self.d2h_stream = torch.cuda.Stream(device=device)
        self.sampling_done = torch.cuda.Event()
        self.d2h_done = torch.cuda.Event()
        self.output_ids_host = torch.empty(max_batch, dtype=torch.int64, pin_memory=True)
        self.mask_host = [
            torch.full((max_batch, words), -1, dtype=torch.int32, pin_memory=True)
            for _ in range(phases)
        ]
        self.mask_uploaded = [torch.cuda.Event() for _ in range(phases)]
        for e in self.mask_uploaded:
            e.record()
        self.mask_dev = torch.full((max_batch, words), -1, dtype=torch.int32, device=device)
        self.shifts = torch.arange(32, dtype=torch.int32, device=device)

    def fill_mask(self, matchers, phase):
        self.mask_uploaded[phase].synchronize()
        host = self.mask_host[phase]
        for i, m in enumerate(matchers):
            m.fill_next_token_bitmask(host, i)
        n = len(matchers)
        self.mask_dev[:n].copy_(host[:n], non_blocking=True)
        self.mask_uploaded[phase].record()

    def apply_mask(self, logits):
        n = logits.shape[0]
        bits = (self.mask_dev[:n].unsqueeze(-1) >> self.shifts) & 1
        allowed = bits.reshape(n, -1)[:, : self.vocab_size].bool()
        logits.masked_fill_(~allowed, -float("inf"))

    def schedule_update(self, output_ids, n):
        self.sampling_done.record()
        self.d2h_stream.wait_event(self.sampling_done)
        with torch.cuda.stream(self.d2h_stream):
            self.output_ids_host[:n].copy_(output_ids[:n], non_blocking=True)
            self.d2h_done.record(self.d2h_stream)

    def finish_update(self, matchers, n):
        self.d2h_done.synchronize()
        for m, token in zip(matchers, self.output_ids_host[:n].tolist()):
            if not m.is_terminated():
                m.accept_token(token)


class Generation:
    def __init__(self, model, guided, max_batch, max_len, device):
        self.model = model
        self.guided = guided
        self.output_ids = torch.zeros(max_batch, dtype=torch.int64, device=device)
        self.token_ids = torch.zeros(max_batch, max_len, dtype=torch.int64, device=device)
        self.finished = torch.zeros(max_batch, dtype=torch.bool, device=device)
        self.eos = 2

    def step(self, matchers, pos, phase):
        n = len(matchers)
        self.guided.fill_mask(matchers, phase)
        logits = self.model(self.token_ids[:n, : pos + 1])[:, -1]
        self.guided.apply_mask(logits)
        self.output_ids[:n] = logits.argmax(dim=-1)
        self.guided.schedule_update(self.output_ids, n)
        self.token_ids[:n, pos + 1] = self.output_ids[:n]
        self.finished[:n] |= self.output_ids[:n] == self.eos
        self.guided.finish_update(matchers, n)


@torch.inference_mode()
def generate(model, matchers, prompt, max_len, vocab_size=152064):
    device = torch.device("cuda", 0)
    guided = GuidedDecoding(len(matchers), vocab_size, device)
    gen = Generation(model, guided, len(matchers), max_len, device)
    n, start = prompt.shape
    gen.token_ids[:n, :start] = prompt.to(device)
    for i, pos in enumerate(range(start - 1, max_len - 1)):
        gen.step(matchers, pos, i % 2)
        if all(m.is_terminated() for m in matchers):
            break
    return gen.token_ids.cpu()
