class Callback:
    """Base of what the loop calls; all hooks do nothing by default."""

    def on_step_begin(self, trainer, step):
        pass

    def on_step_end(self, trainer, step):
        pass

    def on_eval(self, trainer, evaluate):
        return None


class ShadowCallback(Callback):
    def __init__(self, weights, every=1, start=0):
        self.weights = weights
        self.every = every
        self.start = start

    def on_step_end(self, trainer, step):
        if step >= self.start and step % self.every == 0:
            self.weights.refresh()

    def on_eval(self, trainer, evaluate):
        with self.weights.swapped_in():
            return {"ema_loss": evaluate()}


class Patience(Callback):
    """Counts evaluations without progress."""

    def __init__(self, limit, key="ema_loss"):
        self.limit = limit
        self.key = key
        self.best = float("inf")
        self.waited = 0

    def note(self, results):
        value = results.get(self.key, float("inf"))
        if value < self.best:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited >= self.limit
