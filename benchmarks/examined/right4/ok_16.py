import copy
from concurrent.futures import ThreadPoolExecutor

import torch


class EvalJob:
    def __init__(self, model, batches):
        self.model = copy.deepcopy(model).eval()
        self.batches = batches
        self.cloned = torch.cuda.current_stream().record_event()

    @torch.no_grad()
    def run(self, stream):
        stream.wait_event(self.cloned)
        with torch.cuda.stream(stream):
            hits = torch.zeros((), device="cuda")
            seen = 0
            for x, y in self.batches:
                hits += (self.model(x.cuda()).argmax(-1) == y.cuda()).sum()
                seen += y.numel()
            return hits.item() / seen


class BackgroundEvaluator:
    def __init__(self, batches):
        self.batches = batches
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="eval")
        self.stream = torch.cuda.Stream()
        self.future = None
        self.best = 0.0

    def _settle(self):
        if self.future is not None:
            self.best = max(self.best, self.future.result())
            self.future = None

    def submit(self, model):
        self._settle()
        job = EvalJob(model, self.batches)
        self.future = self.pool.submit(job.run, self.stream)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._settle()
        self.pool.shutdown()


def fit(model, opt, train, val, every=200):
    with BackgroundEvaluator(val) as evaluator:
        for i, (x, y) in enumerate(train):
            opt.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            opt.step()
            if i % every == 0:
                evaluator.submit(model)
    return evaluator.best
