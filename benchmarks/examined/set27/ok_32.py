"""Particle step captured once with a forked stream and replayed for every frame."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advect(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float,
           out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = pos[i] + vel[i] * dt


@wp.kernel
def wall_force(pos: wp.array(dtype=wp.vec3), stiffness: float, force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    p = pos[i]
    force[i] = wp.vec3(0.0, wp.max(-p[1], 0.0) * stiffness, 0.0)


@wp.kernel
def drag_force(vel: wp.array(dtype=wp.vec3), wind: wp.array(dtype=wp.vec3), coef: float,
               force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    force[i] = (wind[0] - vel[i]) * coef


@wp.kernel
def integrate(new_pos: wp.array(dtype=wp.vec3), wall: wp.array(dtype=wp.vec3),
              drag: wp.array(dtype=wp.vec3), dt: float,
              pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    vel[i] = vel[i] + (wall[i] + drag[i]) * dt
    pos[i] = new_pos[i]


class ParticleSim:
    def __init__(self, n, device="cuda:0", dt=1.0 / 240.0):
        self.n = n
        self.device = wp.get_device(device)
        rng = np.random.default_rng(0)
        self.pos = wp.array(rng.random((n, 3)), dtype=wp.vec3, device=device)
        self.vel = wp.zeros(n, dtype=wp.vec3, device=device)
        self.new_pos = wp.zeros(n, dtype=wp.vec3, device=device)
        self.wall = wp.zeros(n, dtype=wp.vec3, device=device)
        self.drag = wp.zeros(n, dtype=wp.vec3, device=device)
        self.wind = wp.zeros(1, dtype=wp.vec3, device=device)
        self.h_wind = wp.zeros(1, dtype=wp.vec3, device="cpu", pinned=True)
        self.h_pos = wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.main = wp.Stream(self.device)
        self.side = wp.Stream(self.device)
        wp.load_module(device=self.device)
        wp.synchronize_device(self.device)
        self.graph = self._capture(dt)

    def _capture(self, dt):
        wp.capture_begin(stream=self.main)
        try:
            wp.launch(advect, dim=self.n, inputs=[self.pos, self.vel, dt, self.new_pos], stream=self.main)
            self.side.wait_event(self.main.record_event())
            wp.launch(wall_force, dim=self.n, inputs=[self.new_pos, 800.0, self.wall], stream=self.side)
            wp.launch(drag_force, dim=self.n, inputs=[self.vel, self.wind, 0.4, self.drag], stream=self.main)
            self.main.wait_event(self.side.record_event())
            wp.launch(integrate, dim=self.n,
                      inputs=[self.new_pos, self.wall, self.drag, dt, self.pos, self.vel], stream=self.main)
        finally:
            graph = wp.capture_end(stream=self.main)
        return graph

    def frame(self, wind):
        self.h_wind.numpy()[0] = wind
        wp.copy(self.wind, self.h_wind, stream=self.main)
        for _ in range(4):
            wp.capture_launch(self.graph, stream=self.main)
        wp.copy(self.h_pos, self.pos, stream=self.main)
        done = self.main.record_event()
        wp.synchronize_event(done)
        return self.h_pos.numpy().copy()


def main():
    sim = ParticleSim(1_000_000)
    heights = []
    for f in range(120):
        positions = sim.frame((np.sin(0.05 * f), 0.0, np.cos(0.05 * f)))
        heights.append(float(positions[:, 1].mean()))
    print(heights[-1])


if __name__ == "__main__":
    main()
