"""Greedy decoder that restages its metadata in the same page-locked arrays at every step."""
import numpy as np
import torch
import torch.nn as nn


class StepInputs:
    def __init__(self, max_batch, device):
        self.tokens_host = torch.zeros(max_batch, dtype=torch.int64, pin_memory=True)
        self.slots_host = torch.zeros(max_batch, dtype=torch.int64, pin_memory=True)
        self.tokens = torch.zeros(max_batch, dtype=torch.int64, device=device)
        self.slots = torch.zeros(max_batch, dtype=torch.int64, device=device)

    def stage(self, tokens, slots):
        n = len(tokens)
        self.tokens_host.numpy()[:n] = tokens
        self.slots_host.numpy()[:n] = slots
        self.tokens[:n].copy_(self.tokens_host[:n], non_blocking=True)
        self.slots[:n].copy_(self.slots_host[:n], non_blocking=True)
        return self.tokens[:n], self.slots[:n]


class TinyDecoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tokens, state):
        state = self.cell(self.embed(tokens), state)
        return self.head(state), state


class Engine:
    def __init__(self, vocab=32000, hidden=512, max_batch=64, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.model = TinyDecoder(vocab, hidden).to(self.device).eval()
        self.state = torch.zeros(max_batch, hidden, device=self.device)
        self.inputs = StepInputs(max_batch, self.device)
        self.running = {}
        torch.cuda.synchronize(self.device)

    def add(self, request_id, token):
        used = {slot for slot, _ in self.running.values()}
        slot = next(s for s in range(self.state.shape[0]) if s not in used)
        self.running[request_id] = (slot, [token])

    @torch.inference_mode()
    def step(self):
        order = sorted(self.running)
        if not order:
            return {}
        with torch.cuda.stream(self.stream):
            tokens, slots = self.inputs.stage(
                np.array([self.running[r][1][-1] for r in order]),
                np.array([self.running[r][0] for r in order]))
            logits, state = self.model(tokens, self.state[slots])
            self.state[slots] = state
            sampled = logits.argmax(-1).tolist()
        for rid, token in zip(order, sampled):
            self.running[rid][1].append(token)
        return dict(zip(order, sampled))

    def finish(self, request_id):
        return self.running.pop(request_id)[1]


if __name__ == "__main__":
    engine = Engine()
    for i in range(8):
        engine.add(f"r{i}", i + 1)
    for _ in range(20):
        engine.step()
    print(engine.finish("r3"))
