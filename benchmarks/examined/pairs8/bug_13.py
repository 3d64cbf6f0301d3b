import queue
import threading

import torch
import torch.nn as nn


class Reranker:
    def __init__(self, dim=768):
        self.net = nn.Sequential(nn.Linear(dim, 2048), nn.GELU(), nn.Linear(2048, 1)).cuda().eval()
        torch.cuda.synchronize()


class RerankThread(threading.Thread):
    def __init__(self, reranker, inbox, outbox):
        super().__init__(daemon=True)
        self.net = reranker.net
        self.inbox, self.outbox = inbox, outbox
        self.stream = torch.cuda.Stream()

    def _score(self, docs):
        with torch.cuda.stream(self.stream):
            dev = docs.to("cuda", non_blocking=True)
            scores = self.net(dev).squeeze(-1)
            host = torch.empty(scores.shape, pin_memory=True)
            host.copy_(scores, non_blocking=True)
        return host

    @torch.no_grad()
    def run(self):
        for key, docs in iter(self.inbox.get, None):
            host = self._score(docs)
            torch.cuda.current_stream().synchronize()
            self.outbox.put((key, host))


def main(n=64):
    inbox, outbox = queue.Queue(), queue.Queue()
    thread = RerankThread(Reranker(), inbox, outbox)
    thread.start()
    for i in range(n):
        inbox.put((i, torch.randn(200, 768).pin_memory()))
    ranking = {}
    for _ in range(n):
        key, scores = outbox.get()
        ranking[key] = scores.sort(descending=True).indices[:10].tolist()
    inbox.put(None)
    thread.join()
    print(ranking[0])


if __name__ == "__main__":
    main()
