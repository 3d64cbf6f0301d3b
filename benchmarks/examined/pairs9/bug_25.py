"""Beam decoder: one captured step; the search rearranges its inputs between steps."""
import torch
from torch import nn


class StepModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state):
        state = self.cell(self.embed(ids), state)
        return self.head(state).log_softmax(-1), state


class GraphedStep:
    def __init__(self, model, beams, dim):
        self.ids = torch.zeros(beams, dtype=torch.long, device="cuda")
        self.state = torch.zeros(beams, dim, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            model(self.ids, self.state)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logp, self.next_state = model(self.ids, self.state)

    def load(self, ids, state):
        self.ids.copy_(ids)
        self.state = state

    def run(self):
        self.graph.replay()
        return self.logp, self.next_state


class BeamSearch:
    def __init__(self, step, beams):
        self.step = step
        self.beams = beams

    def __call__(self, steps, dim):
        scores = torch.zeros(self.beams, device="cuda")
        ids = torch.ones(self.beams, dtype=torch.long, device="cuda")
        state = torch.zeros(self.beams, dim, device="cuda")
        for _ in range(steps):
            self.step.load(ids, state)
            logp, next_state = self.step.run()
            total, flat = (scores.unsqueeze(1) + logp).flatten().topk(self.beams)
            parent = flat // logp.shape[1]
            ids = flat % logp.shape[1]
            state = next_state.index_select(0, parent)
            scores = total.clone()
        return ids, scores


@torch.inference_mode()
def main():
    vocab, dim, beams = 8000, 512, 8
    step = GraphedStep(StepModel(vocab, dim).cuda().eval(), beams, dim)
    ids, scores = BeamSearch(step, beams)(40, dim)
    print(ids.tolist(), scores.tolist())


if __name__ == "__main__":
    main()
