"""Offline batch scoring with a prefetching iterator."""
import torch
from torch import nn


def prefetched(host_batches, stream):
    """Yields device batches one ahead of the consumer."""
    staged = None
    for batch in host_batches:
        consumer = torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            upcoming = {k: v.pin_memory().to("cuda", non_blocking=True) for k, v in batch.items()}
            arrived = stream.record_event()
        if staged is not None:
            yield hand_over(staged, consumer)
        staged = (upcoming, arrived)
    if staged is not None:
        yield hand_over(staged, torch.cuda.current_stream())


def hand_over(staged, consumer):
    batch, arrived = staged
    consumer.wait_event(arrived)
    for t in batch.values():
        t.record_stream(consumer)
    return batch


class Scorer(nn.Module):
    def __init__(self, vocab=32000, dim=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(6)])
        self.out = nn.Linear(dim, 1)

    def forward(self, input_ids, attention_mask):
        h = self.body(self.emb(input_ids))
        mask = attention_mask.unsqueeze(-1)
        return self.out((h * mask).sum(1) / mask.sum(1).clamp(min=1))


@torch.inference_mode()
def main(n=64):
    def host():
        for _ in range(n):
            yield {
                "input_ids": torch.randint(0, 32000, (32, 256)),
                "attention_mask": torch.ones(32, 256),
            }

    model = Scorer().cuda()
    scores = [model(**b) for b in prefetched(host(), torch.cuda.Stream())]
    print(torch.cat(scores).cpu().mean())


if __name__ == "__main__":
    main()
