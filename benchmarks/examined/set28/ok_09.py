import torch
from torch import nn


class QuantLinear(nn.Module):
    """Linear layer whose kernel wants transposed fp8 weights and per-channel scales."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d_out, d_in, dtype=torch.bfloat16), requires_grad=False)
        self.packed = None
        self.aux = {}

    def process_weights_after_loading(self):
        scale = self.weight.float().abs().amax(dim=1, keepdim=True).clamp_min(1e-6) / 448.0
        self.packed = (self.weight.float() / scale).to(torch.float8_e4m3fn).t().contiguous()
        self.aux = {"scale": scale.squeeze(1).contiguous(), "extra": [self.weight.float().mean(dim=1)]}

    def forward(self, x):
        w = self.packed.to(x.dtype)
        return (x @ w) * self.aux["scale"].to(x.dtype) + self.aux["extra"][0].to(x.dtype)


def _walk(obj, path):
    if isinstance(obj, torch.Tensor):
        yield path, obj
    elif isinstance(obj, dict):
        for k, v in obj.items():
            yield from _walk(v, path + [("item", k)])
    elif isinstance(obj, list):
        for i, v in enumerate(obj):
            yield from _walk(v, path + [("item", i)])


def collect_tensors(module):
    found = {}
    for name, sub in module.named_modules():
        for attr, value in vars(sub).items():
            if attr.startswith("_"):
                continue
            for path, t in _walk(value, [("attr", attr)]):
                found[(name, tuple(path))] = t
    return found


def _assign(module, path, value):
    obj = module
    for kind, key in path[:-1]:
        obj = getattr(obj, key) if kind == "attr" else obj[key]
    kind, key = path[-1]
    if kind == "attr":
        setattr(obj, key, value)
    else:
        obj[key] = value


class Worker:
    def __init__(self, model):
        self.model = model.cuda()
        self.graphs = {}

    def load(self, state):
        for name, p in self.model.named_parameters():
            p.data.copy_(state[name], non_blocking=True)
        for m in self.model.modules():
            if hasattr(m, "process_weights_after_loading"):
                m.process_weights_after_loading()

    @torch.inference_mode()
    def capture(self, sizes, width):
        for n in sizes:
            x = torch.zeros(n, width, device="cuda", dtype=torch.bfloat16)
            self.model(x)
            torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y = self.model(x)
            self.graphs[n] = (g, x, y)

    def reload_weights(self, state):
        kept = collect_tensors(self.model)
        self.load(state)
        modules = dict(self.model.named_modules())
        for (name, path), new in collect_tensors(self.model).items():
            old = kept[(name, path)]
            if old is not new:
                old.copy_(new)
                _assign(modules[name], path, old)

    @torch.inference_mode()
    def run(self, batch):
        g, x, y = self.graphs[batch.shape[0]]
        x.copy_(batch)
        g.replay()
        return y.clone()


def rollout(worker, states, batches):
    worker.load(states[0])
    worker.capture(sorted({b.shape[0] for b in batches}), batches[0].shape[1])
    results = []
    for state in states[1:]:
        results.append([worker.run(b) for b in batches])
        worker.reload_weights(state)
    return results
