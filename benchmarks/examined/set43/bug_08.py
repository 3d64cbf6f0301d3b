from typing import Dict, List, Optional

import numpy as np
import torch


class Grammar:
    """Toy matcher: allows a sliding band of token ids."""

    def __init__(self, vocab: int, seed: int):
        self.vocab = vocab
        self.state = seed

    def fill_bitmask(self, row: np.ndarray) -> None:
        row.fill(0)
        lo = (self.state * 97) % (self.vocab - 512)
        row[lo // 32:(lo + 512) // 32] = -1

    def accept(self, token: int) -> None:
        self.state = (self.state * 31 + token) & 0xFFFF


class BitmaskStage:
    def __init__(self, max_rows: int, vocab: int, device: torch.device):
        words = (vocab + 31) // 32
        self.host = torch.zeros((max_rows, words), dtype=torch.int32, pin_memory=True)
        self.rows = self.host.numpy()
        self.dev = torch.zeros((max_rows, words), dtype=torch.int32, device=device)
        self.copy_stream = torch.cuda.Stream(device=device)
        self.consumed = torch.cuda.Event()
        self.in_flight = False

    def fill(self, grammars: List[Optional[Grammar]]) -> int:
        if self.in_flight:
            self.consumed.synchronize()
        for i, g in enumerate(grammars):
            if g is None:
                self.rows[i] = -1
            else:
                g.fill_bitmask(self.rows[i])
        return len(grammars)

    def upload(self, n: int) -> torch.Tensor:
        model_stream = torch.cuda.current_stream()
        self.copy_stream.wait_stream(model_stream)
        with torch.cuda.stream(self.copy_stream):
            self.dev[:n].copy_(self.host[:n], non_blocking=True)
        self.consumed.record()
        self.in_flight = True
        model_stream.wait_stream(self.copy_stream)
        return self.dev[:n]


def apply_bitmask(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    shifts = torch.arange(32, device=logits.device, dtype=torch.int32)
    bits = (mask.unsqueeze(-1) >> shifts) & 1
    allowed = bits.reshape(mask.shape[0], -1)[:, : logits.shape[1]].bool()
    return logits.masked_fill_(~allowed, float("-inf"))


class StructuredRunner:
    def __init__(self, vocab: int, batch: int, device: torch.device):
        self.head = torch.nn.Linear(1024, vocab, bias=False, device=device)
        self.embed = torch.nn.Embedding(vocab, 1024, device=device)
        self.stage = BitmaskStage(batch, vocab, device)
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.sampled: List[torch.Tensor] = []

    def step(self, grammars: List[Optional[Grammar]]):
        logits = self.head(self.embed(self.ids))
        n = self.stage.fill(grammars)
        mask = self.stage.upload(n)
        apply_bitmask(logits, mask)
        self.ids = logits.argmax(-1)
        self.sampled.append(self.ids)


@torch.inference_mode()
def main():
    device = torch.device("cuda", 0)
    vocab, batch = 128 * 1024, 128
    runner = StructuredRunner(vocab, batch, device)
    grammars = [Grammar(vocab, i) if i % 4 else None for i in range(batch)]
    for step in range(48):
        runner.step(grammars)
        for g in grammars:
            if g is not None:
                g.accept(step)
    tokens: Dict[int, List[int]] = {}
    for i, row in enumerate(torch.stack(runner.sampled, 1).tolist()):
        tokens[i] = row
    print(tokens[0][:8], tokens[1][:8])


if __name__ == "__main__":
    main()
