import torch


class InputsAndOutputs:
    def __init__(self, max_tokens, max_seqs, device):
        self.host = torch.zeros(2, max_tokens, dtype=torch.int64, pin_memory=True)
        self.device = torch.zeros(2, max_tokens, dtype=torch.int64, device=device)
        self.last_host = torch.zeros(max_seqs, dtype=torch.int64, pin_memory=True)
        self.last = torch.zeros(max_seqs, dtype=torch.int64, device=device)
        self.out = torch.zeros(max_seqs, dtype=torch.int64, device=device)
        self.out_host = torch.zeros(max_seqs, dtype=torch.int64, pin_memory=True)
        self.h2d_over = torch.cuda.Event()
        self.compute_over = torch.cuda.Event()
        self.d2h_over = torch.cuda.Event()
        self.requests = []
        self.n_tokens = 0


class AsyncBatchingIOs:
    def __init__(self, max_tokens, max_seqs, device="cuda"):
        self.pairs = [InputsAndOutputs(max_tokens, max_seqs, device) for _ in range(2)]
        self.current = 0
        self.h2d_stream = torch.cuda.Stream(device)
        self.compute_stream = torch.cuda.Stream(device)
        self.d2h_stream = torch.cuda.Stream(device)
        torch.cuda.synchronize(device)

    def prepare(self, requests):
        pair = self.pairs[self.current]
        ids = [t for r in requests for t in r.tokens_to_process()]
        pos = [p for r in requests for p in r.positions()]
        ends = torch.cumsum(torch.tensor([len(r.positions()) for r in requests]), 0) - 1
        pair.n_tokens, pair.requests = len(ids), requests
        pair.host[0, : len(ids)] = torch.tensor(ids)
        pair.host[1, : len(ids)] = torch.tensor(pos)
        pair.last_host[: len(requests)] = ends
        with torch.cuda.stream(self.h2d_stream):
            pair.device.copy_(pair.host, non_blocking=True)
            pair.last.copy_(pair.last_host, non_blocking=True)
            pair.h2d_over.record()
        return pair

    def launch(self, model, pair, previous):
        self.compute_stream.wait_event(pair.h2d_over)
        with torch.cuda.stream(self.compute_stream):
            ids, pos = pair.device[:, : pair.n_tokens]
            if previous is not None:
                carried = [(i, previous.requests.index(r)) for i, r in enumerate(pair.requests) if r in previous.requests]
                for dst, src in carried:
                    ids[pair.last[dst]] = previous.out[src]
            logits = model(ids[None], pos[None])[0]
            n = len(pair.requests)
            pair.out[:n].copy_(logits[pair.last[:n]].argmax(-1))
            pair.compute_over.record()
        self.d2h_stream.wait_event(pair.compute_over)
        with torch.cuda.stream(self.d2h_stream):
            pair.out_host.copy_(pair.out, non_blocking=True)
            pair.d2h_over.record()
        self.current = 1 - self.current

    def retrieve(self, pair):
        pair.d2h_over.synchronize()
        return pair.out_host[: len(pair.requests)].tolist()


@torch.inference_mode()
def generation_loop(model, scheduler, ios):
    in_flight = None
    while scheduler.has_work() or in_flight is not None:
        requests = scheduler.schedule()
        pair = None
        if requests:
            pair = ios.prepare(requests)
            ios.launch(model, pair, in_flight)
        if in_flight is not None:
            for request, token in zip(in_flight.requests, ios.retrieve(in_flight)):
                request.append(token)
        in_flight = pair
