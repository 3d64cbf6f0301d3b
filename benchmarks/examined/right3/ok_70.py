"""Draft and target models on two streams, one request ahead of each other."""
import torch
from torch import nn


class TokenModel(nn.Module):
    def __init__(self, vocab: int, dim: int, depth: int):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.Tanh()) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.body(self.emb(ids)))


class Request:
    def __init__(self, rid: int, width: int, device: torch.device):
        self.rid = rid
        self.last = torch.zeros(1, dtype=torch.long, device=device)
        self.draft = torch.zeros(width, dtype=torch.long, device=device)
        self.accepted = torch.zeros((), dtype=torch.long, device=device)


class SpeculativePair:
    def __init__(self, width: int, device: torch.device):
        self.draft_model = TokenModel(500, 64, 1).to(device)
        self.target_model = TokenModel(500, 256, 6).to(device)
        self.width, self.device = width, device
        self.draft_stream, self.target_stream = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self.drafted: dict[int, torch.cuda.Event] = {}
        self.verified: dict[int, torch.cuda.Event] = {}

    def admit(self, rid: int) -> Request:
        request = Request(rid, self.width, self.device)
        self.verified[rid] = torch.cuda.current_stream(self.device).record_event()
        return request

    def propose(self, r: Request) -> None:
        self.draft_stream.wait_event(self.verified.pop(r.rid))
        with torch.cuda.stream(self.draft_stream):
            token = r.last
            for i in range(self.width):
                token = self.draft_model(token).argmax(dim=-1)
                r.draft[i:i + 1] = token
            self.drafted[r.rid] = self.draft_stream.record_event()

    def verify(self, r: Request) -> None:
        self.target_stream.wait_event(self.drafted.pop(r.rid))
        with torch.cuda.stream(self.target_stream):
            best = self.target_model(torch.cat([r.last, r.draft])).argmax(dim=-1)
            match = (best[:-1] == r.draft).long().cumprod(0).sum()
            r.accepted += match
            r.last.copy_(best.gather(0, match.view(1)))
            self.verified[r.rid] = self.target_stream.record_event()

    def finish(self, requests: list[Request]) -> list[int]:
        current = torch.cuda.current_stream(self.device)
        for r in requests:
            current.wait_event(self.verified[r.rid])
        return torch.stack([r.accepted for r in requests]).tolist()


@torch.inference_mode()
def main(rounds: int = 20, width: int = 4):
    pair = SpeculativePair(width, torch.device("cuda"))
    requests = [pair.admit(i) for i in range(6)]
    schedule = [r for _ in range(rounds) for r in requests]
    pair.propose(schedule[0])
    for current, upcoming in zip(schedule, schedule[1:] + [None]):
        if upcoming is not None:
            pair.propose(upcoming)
        pair.verify(current)
    print(pair.finish(requests))


if __name__ == "__main__":
    main()
