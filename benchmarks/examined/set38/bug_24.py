"""Two-stage decode executor: the forward pass and the sampler run on streams of their own."""
from dataclasses import dataclass

import torch
import torch.nn as nn

VOCAB = 32000


class TinyLM(nn.Module):
    def __init__(self, dim=1024, depth=8):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.mix = nn.ModuleList(nn.GRUCell(dim, dim) for _ in range(depth))
        self.out = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, tokens, state):
        h = self.emb(tokens)
        for i, cell in enumerate(self.mix):
            h = cell(h, state[i])
            state[i].copy_(h)
        return self.out(h)


@dataclass
class SampleState:
    step: int
    host_tokens: torch.Tensor
    event: torch.cuda.Event


class Sampler:
    def __init__(self, batch, temperature):
        self.temperature = temperature
        self.stream = torch.cuda.Stream()
        self.next_tokens = torch.zeros(batch, dtype=torch.long, device="cuda")

    def sample_async(self, logits, step):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            probs = torch.softmax(logits.float() / self.temperature, dim=-1)
            picked = torch.multinomial(probs, 1).squeeze(1)
            self.next_tokens.copy_(picked)
            host = torch.empty(picked.shape, dtype=picked.dtype, pin_memory=True)
            host.copy_(picked, non_blocking=True)
            event = self.stream.record_event()
        logits.record_stream(self.stream)
        return SampleState(step, host, event)


class Executor:
    def __init__(self, model, batch, max_steps):
        self.model = model
        self.batch = batch
        self.max_steps = max_steps
        self.sampler = Sampler(batch, temperature=0.8)
        dim = model.emb.embedding_dim
        self.state = [torch.zeros(batch, dim, device="cuda") for _ in model.mix]
        self.previous = None
        self.outputs = [[] for _ in range(batch)]

    def _update_requests(self, sample_state):
        sample_state.event.synchronize()
        for row, token in enumerate(sample_state.host_tokens.tolist()):
            self.outputs[row].append(token)

    @torch.no_grad()
    def _forward_step(self):
        return self.model(self.sampler.next_tokens, self.state)

    def run(self):
        torch.cuda.synchronize()
        for step in range(self.max_steps):
            logits = self._forward_step()
            current = self.sampler.sample_async(logits, step)
            if self.previous is not None:
                self._update_requests(self.previous)
            self.previous = current
        self._update_requests(self.previous)
        return self.outputs


def main():
    torch.manual_seed(0)
    model = TinyLM().cuda().eval()
    ex = Executor(model, batch=64, max_steps=128)
    outs = ex.run()
    print(len(outs), outs[0][:16])


if __name__ == "__main__":
    main()
