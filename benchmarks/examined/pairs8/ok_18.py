import numpy as np
import torch
import torch.nn as nn


class FeatureStager:
    def __init__(self, slots, batch, dim, stream):
        self.slots = slots
        self.stream = stream
        self.host = torch.empty(slots, batch, dim, pin_memory=True)
        self.cursor = 0

    def stage(self, rows):
        if self.cursor == self.slots:
            self.stream.synchronize()
            self.cursor = 0
        buf = self.host[self.cursor]
        buf.numpy()[:] = rows
        self.cursor += 1
        return buf.to("cuda", non_blocking=True)


class RankingServer:
    def __init__(self, dim=256, batch=512, slots=8):
        self.stream = torch.cuda.Stream()
        self.stager = FeatureStager(slots, batch, dim, self.stream)
        self.tower = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 1)).cuda().eval()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def score_all(self, chunks):
        scores = []
        with torch.cuda.stream(self.stream):
            for rows in chunks:
                scores.append(self.tower(self.stager.stage(rows)).squeeze(-1))
            return torch.cat(scores).cpu().numpy()


def candidates(n, batch=512, dim=256):
    rng = np.random.default_rng(7)
    for _ in range(n):
        yield rng.standard_normal((batch, dim), dtype=np.float32)


def main():
    server = RankingServer()
    for request in range(3):
        scores = server.score_all(candidates(40))
        print(request, np.argsort(-scores)[:5])


if __name__ == "__main__":
    main()
