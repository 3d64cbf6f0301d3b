"""Batch scorer with one model replica per GPU and a copy stream per replica."""
import torch
import torch.nn as nn


class Replica:
    def __init__(self, module, device, max_batch, classes):
        self.device = torch.device(device)
        self.module = module.to(self.device).eval()
        self.copy = torch.cuda.Stream(self.device)
        self.host_out = torch.empty(max_batch, classes, pin_memory=True)

    @torch.inference_mode()
    def launch(self, batch):
        """batch: pinned host tensor. Returns the logits and an event."""
        with torch.cuda.device(self.device):
            x = batch.to(self.device, non_blocking=True)
            logits = self.module(x)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream())
        return logits, done

    def fetch(self, logits, done):
        n = logits.shape[0]
        self.copy.wait_event(done)
        with torch.cuda.stream(self.copy):
            self.host_out[:n].copy_(logits, non_blocking=True)
        logits.record_stream(self.copy)
        self.copy.synchronize()
        return self.host_out[:n].clone()


class Scorer:
    def __init__(self, build, max_batch, classes):
        self.replicas = [
            Replica(build(), f"cuda:{i}", max_batch, classes)
            for i in range(torch.cuda.device_count())
        ]

    def score(self, batches):
        results = []
        inflight = []
        for i, batch in enumerate(batches):
            replica = self.replicas[i % len(self.replicas)]
            inflight.append((replica, *replica.launch(batch)))
            if len(inflight) == len(self.replicas):
                results.extend(r.fetch(y, ev) for r, y, ev in inflight)
                inflight.clear()
        results.extend(r.fetch(y, ev) for r, y, ev in inflight)
        return torch.cat(results) if results else torch.empty(0)


def build_model(width=2048, classes=1000):
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, classes)
    )


if __name__ == "__main__":
    scorer = Scorer(build_model, max_batch=256, classes=1000)
    data = [torch.randn(256, 2048).pin_memory() for _ in range(32)]
    print(scorer.score(data).argmax(-1)[:8].tolist())
