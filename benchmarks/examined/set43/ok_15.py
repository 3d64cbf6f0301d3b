from typing import Any, Dict, Iterable, List

import torch
import torch.nn as nn


class HostRecord:
    """Collects device tensors of one batch for later reading on the host."""

    def __init__(self, stream: torch.cuda.Stream):
        self.stream = stream
        self.host: Dict[str, torch.Tensor] = {}
        self.device: List[torch.Tensor] = []
        self.sealed = torch.cuda.Event()

    def open(self) -> "HostRecord":
        self.stream.wait_stream(torch.cuda.current_stream())
        return self

    def add(self, name: str, tensor: torch.Tensor) -> "HostRecord":
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
        self.host[name] = host
        self.device.append(tensor)
        return self

    def add_many(self, items: Dict[str, torch.Tensor]) -> "HostRecord":
        for name, tensor in items.items():
            self.add(name, tensor)
        return self

    def seal(self) -> "HostRecord":
        self.sealed.record(self.stream)
        return self

    def lists(self) -> Dict[str, Any]:
        self.sealed.synchronize()
        out = {name: t.tolist() for name, t in self.host.items()}
        self.device.clear()
        return out


class TopK(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(self, logits: torch.Tensor):
        values, ids = logits.log_softmax(-1).topk(self.k, dim=-1)
        lengths = (values > values[:, :1] - 4.0).sum(-1)
        return ids, values, lengths


class Engine:
    def __init__(self, vocab: int, width: int, batch: int):
        self.embed = nn.Embedding(vocab, width).cuda()
        self.norm = nn.LayerNorm(width).cuda()
        self.topk = TopK(64)
        self.stream = torch.cuda.Stream()
        self.ids = torch.arange(batch, device="cuda")

    def launch(self) -> HostRecord:
        h = self.norm(self.embed(self.ids))
        ids, values, lengths = self.topk(h @ self.embed.weight.t())
        token = ids[:, 1].contiguous()
        self.ids = token
        record = HostRecord(self.stream).open()
        record.add("token", token)
        record.add_many({"mask_ids": ids, "mask_len": lengths})
        record.add("top_logprobs", values)
        return record.seal()

    def decode(self, steps: int) -> Iterable[Dict[str, Any]]:
        previous = None
        for _ in range(steps):
            current = self.launch()
            if previous is not None:
                yield previous.lists()
            previous = current
        if previous is not None:
            yield previous.lists()


@torch.inference_mode()
def main():
    engine = Engine(vocab=50000, width=640, batch=96)
    support = 0
    for lists in engine.decode(40):
        for ids, n in zip(lists["mask_ids"], lists["mask_len"]):
            support += len(ids[:n])
    print(support)


if __name__ == "__main__":
    main()
