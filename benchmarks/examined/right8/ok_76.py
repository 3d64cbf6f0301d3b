"""Base class with pre and post hooks that keep stage order; stages know only their work."""
import cupy as cp


class Hooked:
    """Runs `work` between registered hooks on the stage's stream."""

    def __init__(self, name):
        self.name = name
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pre, self.post = [], []

    def __call__(self, state):
        for hook in self.pre:
            hook(self, state)
        with self.stream:
            self.work(state)
        for hook in self.post:
            hook(self, state)


class Draw(Hooked):
    def work(self, state):
        state["noise"][...] = cp.random.standard_normal(state["noise"].shape)


class Move(Hooked):
    def work(self, state):
        state["pos"] += 0.1 * state["noise"]


class Measure(Hooked):
    def work(self, state):
        state["trace"][state["k"]] = (state["pos"] ** 2).mean()


class Chain:
    def __init__(self, *stages):
        self.stages = stages
        self.marks = {s.name: cp.cuda.Event(disable_timing=True) for s in stages}
        for before, stage in zip((stages[-1],) + stages[:-1], stages):
            stage.pre.append(self._wait_for(before.name))
            stage.post.append(self._mark)

    def _wait_for(self, name):
        def hook(stage, state):
            stage.stream.wait_event(self.marks[name])
        return hook

    def _mark(self, stage, state):
        self.marks[stage.name].record(stage.stream)

    def run(self, state, steps):
        for k in range(steps):
            state["k"] = k
            for stage in self.stages:
                stage(state)
        self.marks[self.stages[-1].name].synchronize()
        return state["trace"].get()


def main(walkers=1 << 16, steps=50):
    state = {"noise": cp.zeros((walkers, 3)), "pos": cp.zeros((walkers, 3)),
             "trace": cp.zeros(steps)}
    cp.cuda.Device().synchronize()
    return Chain(Draw("draw"), Move("move"), Measure("measure")).run(state, steps)


if __name__ == "__main__":
    print(main()[-1])
