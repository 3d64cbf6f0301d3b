"""Check that a planned attention wrapper gives the same answer when driven from another stream."""
import math
from dataclasses import dataclass

import torch


@dataclass
class Problem:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor

    @classmethod
    def random(cls, heads, q_len, kv_len, dim, seed):
        g = torch.Generator(device="cuda").manual_seed(seed)
        mk = lambda n: torch.randn(heads, n, dim, device="cuda", generator=g)
        return cls(mk(q_len), mk(kv_len), mk(kv_len))


class PrefillWrapper:
    def __init__(self, heads, q_len, kv_len):
        self.scores = torch.empty(heads, q_len, kv_len, device="cuda")
        self.scale = None

    def plan(self, dim, causal):
        q_len, kv_len = self.scores.shape[1:]
        self.scale = 1.0 / math.sqrt(dim)
        self.mask = None
        if causal:
            self.mask = torch.ones(q_len, kv_len, dtype=torch.bool, device="cuda").triu(
                kv_len - q_len + 1)

    def run(self, q, k, v, out):
        torch.bmm(q, k.transpose(1, 2), out=self.scores)
        self.scores.mul_(self.scale)
        if self.mask is not None:
            self.scores.masked_fill_(self.mask, float("-inf"))
        p = torch.softmax(self.scores, dim=-1)
        torch.bmm(p, v, out=out)
        return out


def reference(p, causal):
    s = p.q @ p.k.transpose(1, 2) / math.sqrt(p.q.shape[-1])
    if causal:
        n, m = s.shape[1:]
        s = s.masked_fill(torch.ones(n, m, dtype=torch.bool, device=s.device).triu(m - n + 1),
                          float("-inf"))
    return s.softmax(-1) @ p.v


def check(got, problem, causal):
    torch.testing.assert_close(got, reference(problem, causal), rtol=1e-3, atol=1e-3)


class StreamReuseCase:
    def __init__(self, heads=16, q_len=512, kv_len=2048, dim=128, causal=True):
        self.causal = causal
        self.first = Problem.random(heads, q_len, kv_len, dim, 1)
        self.second = Problem.random(heads, q_len, kv_len, dim, 2)
        self.one = PrefillWrapper(heads, q_len, kv_len)
        self.two = PrefillWrapper(heads, q_len, kv_len)
        self.shared_out = torch.empty_like(self.first.q)
        self.worker_stream = torch.cuda.Stream()
        for w in (self.one, self.two):
            w.plan(dim, causal)
        torch.cuda.synchronize()

    def execute(self):
        self.one.run(self.first.q, self.first.k, self.first.v, out=self.shared_out)
        first_result = self.shared_out.clone()
        complete = torch.cuda.Event()
        with torch.cuda.stream(self.worker_stream):
            self.shared_out.fill_(float("nan"))
            returned = self.two.run(self.second.q, self.second.k, self.second.v,
                                    out=self.shared_out)
            complete.record()
        torch.cuda.current_stream().wait_event(complete)
        assert returned is self.shared_out
        return first_result

    def verify(self, first_result):
        check(first_result, self.first, self.causal)
        check(self.shared_out, self.second, self.causal)


def main():
    for causal in (True, False):
        case = StreamReuseCase(causal=causal)
        for _ in range(5):
            case.verify(case.execute())
    print("ok")


if __name__ == "__main__":
    main()
