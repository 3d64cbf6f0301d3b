"""Graph-captured decode step fed from page-locked request slots (torch)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RecurrentLM(nn.Module):
    def __init__(self, vocab=4096, d=1024, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.gates = nn.ModuleList(nn.Linear(2 * d, 2 * d) for _ in range(layers))
        self.out = nn.Linear(d, vocab, bias=False)

    def forward(self, ids, temp, state):
        x = self.embed(ids)
        for i, gate in enumerate(self.gates):
            a, b = gate(torch.cat([x, state[i]], dim=-1)).chunk(2, dim=-1)
            new = state[i] + torch.sigmoid(a) * (torch.tanh(b) - state[i])
            state[i].copy_(new)
            x = x + new
        return F.softmax(self.out(x) / temp[:, None], dim=-1)


class StepInputs:
    """Host mirrors of everything the step consumes."""

    def __init__(self, batch):
        self.ids = torch.zeros(batch, dtype=torch.long).pin_memory()
        self.temp = torch.ones(batch).pin_memory()

    def write(self, ids, temp):
        self.ids.copy_(torch.as_tensor(ids))
        self.temp.copy_(torch.as_tensor(temp))


class GraphStep:
    def __init__(self, model, batch, d=1024, layers=4):
        self.model = model
        self.host = StepInputs(batch)
        self.ids = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.temp = torch.ones(batch, device="cuda")
        self.state = [torch.zeros(batch, d, device="cuda", dtype=torch.float16) for _ in range(layers)]
        self.score = torch.zeros(batch, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _body(self):
        self.ids.copy_(self.host.ids, non_blocking=True)
        self.temp.copy_(self.host.temp, non_blocking=True)
        probs = self.model(self.ids, self.temp.half(), self.state)
        self.score.add_(probs.float().gather(1, self.ids[:, None]).squeeze(1).log())

    def _capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._body()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self._body()
        self.reset()

    def reset(self):
        for s in self.state:
            s.zero_()
        self.score.zero_()

    def __call__(self, ids, temp):
        self.host.write(ids, temp)
        self.graph.replay()


class Rescorer:
    """Teacher-forced scoring of fixed token rows."""

    def __init__(self, batch):
        model = RecurrentLM().cuda().half().eval()
        with torch.inference_mode(False), torch.no_grad():
            self.step = GraphStep(model, batch)
        self.batch = batch

    def score(self, rows, temps):
        self.step.reset()
        for t in range(rows.size(1)):
            self.step(rows[:, t], temps[:, t])
        torch.cuda.current_stream().synchronize()
        return self.step.score.cpu()


def main():
    torch.manual_seed(0)
    batch, length = 32, 128
    rescorer = Rescorer(batch)
    for k in range(4):
        rows = torch.randint(4096, (batch, length))
        temps = 0.5 + torch.rand(batch, length)
        s = rescorer.score(rows, temps)
        print(k, s.mean().item(), s.std().item())


if __name__ == "__main__":
    main()
