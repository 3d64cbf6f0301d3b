import torch
import torch.nn as nn


class DraftHead(nn.Module):
    def __init__(self, vocab=8000, dim=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.fc = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, hidden):
        h = torch.tanh(self.fc(torch.cat([self.emb(ids), hidden], dim=-1)))
        probs = self.head(h).softmax(-1)
        top_p, top_i = probs.topk(4, dim=-1)
        return top_p, top_i, h


class DraftExtendGraphRunner:
    def __init__(self, head, max_bs, dim=256):
        self.input_ids = torch.zeros(max_bs, dtype=torch.long, device="cuda")
        self.hidden_in = torch.zeros(max_bs, dim, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            head(self.input_ids, self.hidden_in)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.topk_p, self.topk_index, self.hidden_states = head(self.input_ids, self.hidden_in)

    def replay(self, ids, hidden):
        n = ids.shape[0]
        self.input_ids[:n].copy_(ids)
        self.hidden_in[:n].copy_(hidden)
        self.graph.replay()
        return self.topk_p[:n], self.topk_index[:n], self.hidden_states[:n]


class EagleWorker:
    def __init__(self, runner):
        self.runner = runner
        self.trace = []

    def draft(self, ids, hidden, depth):
        for _ in range(depth):
            top_p, top_i, hidden = self.runner.replay(ids, hidden)
            self.trace.append((top_p, top_i))
            ids = top_i[:, 0].contiguous()
        return self.trace

    def path_scores(self):
        return torch.stack([p[:, 0] for p, _ in self.trace]).log().sum(0)


@torch.inference_mode()
def main():
    worker = EagleWorker(DraftExtendGraphRunner(DraftHead().cuda(), 32))
    worker.draft(torch.arange(8, device="cuda"), torch.randn(8, 256, device="cuda"), depth=5)
    print(worker.path_scores().tolist())


if __name__ == "__main__":
    main()
