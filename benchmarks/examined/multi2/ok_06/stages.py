import torch

from plan import Stage


def whiten(x):
    x = x - x.mean(0, keepdim=True)
    return x / (x.std(0, keepdim=True) + 1e-5)


def project(dim):
    w = torch.randn(dim, dim, device="cuda") / dim ** 0.5

    def fn(x):
        return torch.tanh(x @ w)

    return fn


def default_stages(dim):
    stages = [
        Stage("whiten", whiten),
        Stage("project", project(dim), repeat=8),
        Stage("norm", lambda x: torch.nn.functional.normalize(x, dim=-1)),
    ]
    torch.cuda.current_stream().synchronize()
    return stages


def total_repeats(stages):
    return sum(s.repeat for s in stages)


def by_name(stages, *names):
    table = {s.name: s for s in stages}
    return [table[n] for n in names]
