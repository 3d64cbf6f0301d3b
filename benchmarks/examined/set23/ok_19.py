"""Model runner whose outputs are copied on a side stream and consumed by a thread."""
import queue
import threading

import torch
from torch import nn


class AsyncOutput:
    def __init__(self, tokens, logprobs, mask, main_stream, copy_stream):
        self._sources = (tokens, logprobs, mask)
        self.copy_event = torch.cuda.Event(blocking=True)
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main_stream)
            self.host = [self._to_pinned(t) for t in self._sources]
            self.copy_event.record(copy_stream)

    @staticmethod
    def _to_pinned(tensor):
        out = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return out.copy_(tensor, non_blocking=True)

    def get(self):
        self.copy_event.synchronize()
        self._sources = None
        tokens, logprobs, mask = self.host
        return tokens.tolist(), logprobs.numpy().copy(), mask.sum(-1).tolist()


class Sampler(nn.Module):
    def __init__(self, top_p=0.9):
        super().__init__()
        self.top_p = top_p

    def forward(self, logits):
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        sorted_lp, order = logprobs.sort(-1, descending=True)
        keep = sorted_lp.exp().cumsum(-1) - sorted_lp.exp() < self.top_p
        mask = torch.zeros_like(keep).scatter_(-1, order, keep)
        gumbel = -torch.log(torch.empty_like(logprobs).exponential_())
        tokens = logprobs.masked_fill(~mask, float("-inf")).add(gumbel).argmax(-1)
        return tokens, logprobs.gather(-1, tokens.unsqueeze(-1)), mask


class Speculator(nn.Module):
    def __init__(self, vocab, dim, steps):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.steps = steps

    def propose(self, tokens):
        drafts = []
        for _ in range(self.steps):
            tokens = self.head(torch.tanh(self.embed(tokens))).argmax(-1)
            drafts.append(tokens)
        return torch.stack(drafts, -1)


class GPUModelRunner:
    def __init__(self, vocab=16000, dim=1024, layers=8, spec_steps=3):
        self.embed = nn.Embedding(vocab, dim).cuda()
        self.blocks = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers)).cuda()
        self.head = nn.Linear(dim, vocab, bias=False).cuda()
        self.sampler = Sampler()
        self.speculator = Speculator(vocab, dim, spec_steps).cuda()
        self.main_stream = torch.cuda.current_stream()
        self.output_copy_stream = torch.cuda.Stream()

    def execute(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + torch.relu(block(x))
        sampled, logprobs, mask = self.sampler(self.head(x))
        output = AsyncOutput(sampled, logprobs, mask, self.main_stream, self.output_copy_stream)
        drafts = self.speculator.propose(sampled)
        accepted = torch.where(drafts[:, 0] == sampled, drafts[:, 1], sampled)
        return accepted, output


class OutputThread(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize=4)
        self.results = []

    def run(self):
        while (output := self.inbox.get()) is not None:
            self.results.append(output.get())


@torch.inference_mode()
def main(batch=32, steps=64):
    runner = GPUModelRunner()
    thread = OutputThread()
    thread.start()
    tokens = torch.arange(batch, device="cuda")
    for _ in range(steps):
        tokens, output = runner.execute(tokens)
        thread.inbox.put(output)
        del output
    thread.inbox.put(None)
    thread.join()
    print(len(thread.results), sum(t[0][0] for t in thread.results))


if __name__ == "__main__":
    main()
