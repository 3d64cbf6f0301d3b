import torch


class Evaluator:
    def __init__(self, metric, batches):
        self.metric = metric
        self.batches = batches

    @torch.inference_mode()
    def __call__(self, module):
        was = module.training
        module.eval()
        total, count = None, 0
        for x, y in self.batches:
            value = self.metric(module(x), y) * len(x)
            total = value if total is None else total + value
            count += len(x)
        module.train(was)
        return total / count


class Best:
    """Remembers the lowest value seen and when."""

    def __init__(self):
        self.value = float("inf")
        self.at = None

    def offer(self, value, at):
        if value < self.value:
            self.value, self.at = value, at
            return True
        return False

    def __str__(self):
        return "nothing yet" if self.at is None else f"{self.value:.5f} at {self.at}"
