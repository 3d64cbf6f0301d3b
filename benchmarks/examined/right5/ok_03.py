from dataclasses import dataclass, field
from typing import List, Optional

import torch


class AsyncOutput:
    """Sampled tokens of one step, on their way to the host."""

    def __init__(self, req_ids: List[str], token_ids: torch.Tensor, logprobs: Optional[torch.Tensor],
                 copy_stream: torch.cuda.Stream):
        self.req_ids = req_ids
        self._token_ids = token_ids
        self._logprobs = logprobs
        self.copy_event = torch.cuda.Event()

        default_stream = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(default_stream)
            self.token_ids_cpu = token_ids.to("cpu", non_blocking=True)
            self.logprobs_cpu = None if logprobs is None else logprobs.to("cpu", non_blocking=True)
            self.copy_event.record()

    def get_output(self):
        self.copy_event.synchronize()
        self._token_ids = None
        self._logprobs = None
        tokens = self.token_ids_cpu.tolist()
        scores = None if self.logprobs_cpu is None else self.logprobs_cpu.tolist()
        return dict(zip(self.req_ids, tokens)), scores


@dataclass
class Engine:
    vocab: int = 32000
    dim: int = 1024
    device: str = "cuda"
    history: dict = field(default_factory=dict)

    def __post_init__(self):
        self.embed = torch.randn(self.vocab, self.dim, device=self.device) * 0.02
        self.head = torch.randn(self.dim, self.vocab, device=self.device) * 0.02
        self.output_copy_stream = torch.cuda.Stream()

    def execute(self, req_ids, last_tokens):
        hidden = torch.nn.functional.silu(self.embed[last_tokens])
        logits = hidden @ self.head
        probs = torch.softmax(logits, dim=-1)
        token_ids = torch.multinomial(probs, 1).squeeze(-1)
        lp = probs.gather(1, token_ids[:, None]).log().squeeze(-1)
        return token_ids, AsyncOutput(req_ids, token_ids, lp, self.output_copy_stream)

    @torch.inference_mode()
    def run(self, req_ids, steps):
        tokens = torch.zeros(len(req_ids), dtype=torch.long, device=self.device)
        pending: Optional[AsyncOutput] = None
        for _ in range(steps):
            tokens, out = self.execute(req_ids, tokens)
            if pending is not None:
                self._append(pending)
            pending = out
        if pending is not None:
            self._append(pending)
        return self.history

    def _append(self, out: AsyncOutput):
        ids, _ = out.get_output()
        for rid, tok in ids.items():
            self.history.setdefault(rid, []).append(tok)


if __name__ == "__main__":
    print(Engine().run([f"req-{i}" for i in range(8)], steps=32))
