"""Sparse-attention prologue: indexer and key projection overlapped on aux streams."""
import torch
import torch.nn as nn


class Indexer(nn.Module):
    def __init__(self, dim, index_dim, top):
        super().__init__()
        self.q = nn.Linear(dim, index_dim, bias=False)
        self.gate = nn.Linear(dim, index_dim, bias=False)
        self.key = nn.Linear(dim, index_dim, bias=False)
        self.top = top


class OverlapPrologue(nn.Module):
    def __init__(self, dim=2048, index_dim=2048, top=64):
        super().__init__()
        self.indexer = Indexer(dim, index_dim, top)
        self.aux = torch.cuda.Stream()
        self.index_lane = torch.cuda.Stream()
        self.ev_in = torch.cuda.Event()
        self.ev_gate = torch.cuda.Event()
        self.ev_key = torch.cuda.Event()
        self.ev_top = torch.cuda.Event()

    def _gate_scores(self, x):
        with torch.cuda.stream(self.aux):
            gate = self.indexer.gate(x).sigmoid_()
            self.ev_gate.record()
        with torch.cuda.stream(self.index_lane):
            self.index_lane.wait_event(self.ev_gate)
            scores = self.indexer.q(x) * gate
        return scores

    def _keys(self, x):
        with torch.cuda.stream(self.aux):
            keys = self.indexer.key(x)
            self.ev_key.record()
        return keys

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.ev_in.record(main)
        self.aux.wait_event(self.ev_in)
        self.index_lane.wait_event(self.ev_in)
        x.record_stream(self.aux)
        x.record_stream(self.index_lane)

        scores = self._gate_scores(x)
        keys = self._keys(x)

        with torch.cuda.stream(self.index_lane):
            self.index_lane.wait_event(self.ev_key)
            logits = scores @ keys.t()
            picked = logits.topk(self.indexer.top, dim=-1).indices
            self.ev_top.record()
        keys.record_stream(self.index_lane)

        main.wait_event(self.ev_top)
        picked.record_stream(main)
        return picked


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.prologue = OverlapPrologue(dim, dim)
        self.value = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        picked = self.prologue(x)
        v = self.value(x)
        gathered = v[picked].mean(dim=1)
        return x + self.out(gathered)


@torch.inference_mode()
def main():
    dim = 2048
    model = nn.Sequential(*[Layer(dim) for _ in range(4)]).cuda().eval()
    x = torch.randn(1088, dim, device="cuda")
    for _ in range(5):
        y = model(x)
    torch.cuda.synchronize()
    print(y.norm().item())


if __name__ == "__main__":
    main()
