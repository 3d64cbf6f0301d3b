from dataclasses import dataclass


@dataclass
class Plan:
    steps: int = 400
    every: int = 20
    rate: float = 0.02


class Experiment:
    def __init__(self, plan, world, observers):
        self.plan = plan
        self.world = world
        self.observers = observers

    def _due(self, step):
        return step % self.plan.every == self.plan.every - 1

    def run(self):
        for step in range(self.plan.steps):
            self.world.advance(self.plan.rate)
            if self._due(step):
                for o in self.observers:
                    o.look(self.world.view)
        return [o.report() for o in self.observers]
