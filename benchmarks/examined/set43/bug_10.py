from typing import List, Optional

import torch
import torch.nn as nn


class MTPHead(nn.Module):
    def __init__(self, width: int, vocab: int):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.draft = nn.Linear(width, width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.embed = nn.Embedding(vocab, width)

    def forward(self, ids: torch.Tensor):
        h = self.trunk(self.embed(ids))
        logits = self.lm_head(h)
        token = logits.argmax(-1)
        draft = self.lm_head(self.draft(h + self.embed(token))).argmax(-1)
        return token, draft, logits.log_softmax(-1)


class GraphedStep:
    def __init__(self, model: nn.Module, batch: int, device):
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                model(self.ids)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.token, self.draft, self.logprobs = model(self.ids)

    def run(self):
        self.graph.replay()
        self.ids.copy_(self.token)
        return self.token, self.draft, self.logprobs


class AsyncOutput:
    def __init__(self, outputs, copy_stream: torch.cuda.Stream):
        self.async_copy_ready_event = torch.cuda.Event()
        main = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main)
            self.host = [
                torch.empty(t.shape, dtype=t.dtype, pin_memory=True).copy_(t, non_blocking=True)
                for t in outputs
            ]
            self.async_copy_ready_event.record()

    def get_output(self):
        self.async_copy_ready_event.synchronize()
        token, draft, logprobs = self.host
        return token.tolist(), draft.tolist(), logprobs.gather(1, token[:, None]).squeeze(1).tolist()


class Worker:
    def __init__(self, model: nn.Module, batch: int, device):
        self.step = GraphedStep(model, batch, device)
        self.copy_stream = torch.cuda.Stream(device=device)
        self.previous: Optional[AsyncOutput] = None

    def execute_model(self):
        outputs = self.step.run()
        current = AsyncOutput(outputs, self.copy_stream)
        ready, self.previous = self.previous, current
        return ready.get_output() if ready is not None else None

    def last(self):
        return self.previous.get_output()


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    batch = 64
    model = MTPHead(1024, 65536).to(device)
    worker = Worker(model, batch, device)
    texts: List[List[int]] = [[] for _ in range(batch)]
    accepted = 0
    drafts = None
    for _ in range(64):
        result = worker.execute_model()
        if result is None:
            continue
        tokens, new_drafts, _ = result
        if drafts is not None:
            accepted += sum(a == b for a, b in zip(drafts, tokens))
        drafts = new_drafts
        for text, tok in zip(texts, tokens):
            text.append(tok)
    worker.last()
    print(accepted, texts[0][:12])


if __name__ == "__main__":
    main()
