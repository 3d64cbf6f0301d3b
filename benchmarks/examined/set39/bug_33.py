"""Retrieval stage: torch computes features, a CuPy stage ranks them."""
import cupy as cp
import torch
from torch import nn
from torch.utils import dlpack


class FeatureNet(nn.Module):
    def __init__(self, width=1024, depth=5):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Ranker:
    """Cosine scores against a fixed catalogue, in CuPy."""

    def __init__(self, items, width):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.catalogue = cp.random.standard_normal((items, width), dtype=cp.float32)
            self.catalogue /= cp.linalg.norm(self.catalogue, axis=1, keepdims=True)
        self.stream.synchronize()

    def score(self, capsule):
        queries = cp.fromDlpack(capsule)
        with self.stream:
            norm = cp.linalg.norm(queries, axis=1, keepdims=True)
            scores = (queries / cp.maximum(norm, 1e-6)) @ self.catalogue.T
        return queries, scores


class Retrieval:
    def __init__(self, width=1024, items=20000):
        self.net = FeatureNet(width).cuda().eval()
        self.ranker = Ranker(items, width)
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    @torch.inference_mode()
    def __call__(self, batch, k=10):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            feats = self.net(batch)
            queries, scores = self.ranker.score(dlpack.to_dlpack(feats))
            ranked = dlpack.from_dlpack(scores.toDlpack())
            top = ranked.topk(k, dim=1).indices
        batch.record_stream(self.stream)
        self.stream.synchronize()
        self.ranker.stream.synchronize()
        return top.cpu()


def main(batches=8, batch=512, width=1024):
    retrieval = Retrieval(width)
    seen = set()
    for _ in range(batches):
        x = torch.randn(batch, width, device="cuda")
        top = retrieval(x)
        seen.update(top.flatten().tolist())
    print("distinct items", len(seen))


if __name__ == "__main__":
    main()
