"""Rollout weights refreshed from the trainer over a dedicated stream."""
import copy
import threading

import torch
import torch.nn as nn


class WeightPublisher:
    def __init__(self, source, versions=2):
        self.source = list(source.parameters())
        self.copies = [copy.deepcopy(source).requires_grad_(False) for _ in range(versions)]
        self.readers_done = [None] * versions
        self.stream = torch.cuda.Stream()
        self.lock = threading.Lock()
        self.version = 0
        self.published = torch.cuda.Event()
        self.published.record()

    @torch.no_grad()
    def publish(self):
        with self.lock:
            target = (self.version + 1) % len(self.copies)
            self.stream.wait_stream(torch.cuda.current_stream())
            if self.readers_done[target] is not None:
                self.stream.wait_event(self.readers_done[target])
            with torch.cuda.stream(self.stream):
                torch._foreach_copy_(list(self.copies[target].parameters()), self.source)
                self.published = self.stream.record_event()
            torch.cuda.current_stream().wait_event(self.published)
            self.version = target

    def act(self, obs):
        with self.lock:
            index = self.version
            torch.cuda.current_stream().wait_event(self.published)
            out = self.copies[index](obs)
            self.readers_done[index] = torch.cuda.current_stream().record_event()
            return out


def rollout(publisher, stop, results):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        while not stop.is_set():
            obs = torch.randn(64, 32, device="cuda")
            results.append(publisher.act(obs).argmax(-1).float().mean().item())


def main():
    policy = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 6)).cuda()
    torch.cuda.synchronize()
    publisher = WeightPublisher(policy)
    stop, results = threading.Event(), []
    worker = threading.Thread(target=rollout, args=(publisher, stop, results))
    worker.start()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for step in range(500):
        loss = policy(torch.randn(512, 32, device="cuda")).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            publisher.publish()
    stop.set()
    worker.join()
    print(len(results))


if __name__ == "__main__":
    main()
