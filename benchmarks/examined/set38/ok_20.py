"""Captured decode step: the graph has an internal side branch and is replayed on the serving stream."""
import numpy as np
import torch


class DecodeStep:
    def __init__(self, batch, dim, vocab):
        self.hidden = torch.zeros(batch, dim, device="cuda")
        self.w = torch.randn(dim, dim, device="cuda") * dim ** -0.5
        self.lm = torch.randn(dim, vocab, device="cuda") * dim ** -0.5
        self.tokens = torch.empty(batch, dtype=torch.long, device="cuda")
        self.stats = torch.empty(batch, device="cuda")
        self.host_tokens = torch.empty(batch, dtype=torch.long, pin_memory=True)
        self.host_stats = torch.empty(batch, pin_memory=True)
        self.aux = torch.cuda.Stream()

    def run(self):
        main = torch.cuda.current_stream()
        h = torch.tanh(self.hidden @ self.w)
        self.aux.wait_stream(main)
        with torch.cuda.stream(self.aux):
            torch.linalg.vector_norm(h, dim=-1, out=self.stats)
            self.host_stats.copy_(self.stats, non_blocking=True)
        torch.argmax(h @ self.lm, dim=-1, out=self.tokens)
        self.host_tokens.copy_(self.tokens, non_blocking=True)
        main.wait_stream(self.aux)
        self.hidden.copy_(h)


class Server:
    def __init__(self, step):
        self.step = step
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                step.run()
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            step.run()
        self.done = torch.cuda.Event()

    def prime(self, hidden):
        with torch.cuda.stream(self.stream):
            self.step.hidden.copy_(hidden, non_blocking=True)

    def launch(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.done.record()

    def collect(self):
        self.done.synchronize()
        return self.step.host_tokens.tolist(), float(np.mean(self.step.host_stats.numpy()))


class Session:
    def __init__(self, server):
        self.server = server
        self.tokens, self.norms = [], []

    def generate(self, prompt, steps):
        self.server.prime(prompt)
        for _ in range(steps):
            self.server.launch()
            tokens, norm = self.server.collect()
            self.tokens.append(tokens)
            self.norms.append(norm)
        return len(self.tokens), self.norms[-1]


def main():
    torch.manual_seed(0)
    server = Server(DecodeStep(64, 2048, 32000))
    prompts = [torch.randn(64, 2048).pin_memory() for _ in range(3)]
    for p in prompts:
        print(Session(server).generate(p, 20))


if __name__ == "__main__":
    main()
