from density import Density
from particles import Particles


class Simulation:
    def __init__(self, n=2_000_000, bins=512):
        self.particles = Particles(n)
        self.density = Density(bins)
        self.scale = 1e-7

    def run(self, steps, dt=0.1, report=25):
        history = []
        for k in range(steps):
            self.particles.move(dt)
            counts = self.density.rebuild(self.particles)
            self.particles.push(counts, self.scale)
            if k % report == 0:
                history.append(self.density.contrast())
        return history


def main():
    sim = Simulation()
    for k, value in enumerate(sim.run(200)):
        print(k * 25, round(value, 4))
    pos = sim.particles.pos.copy_to_host()
    print(pos.mean(axis=0))


if __name__ == "__main__":
    main()
