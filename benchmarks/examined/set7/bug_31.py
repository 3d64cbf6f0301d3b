from dataclasses import dataclass
from typing import Optional

import warp as wp


@dataclass
class Model:
    ngeom: int
    nconmax: int
    timestep: float
    radius: wp.array


@dataclass
class Data:
    xpos: wp.array
    qvel: wp.array
    ncon: wp.array
    contact_a: wp.array
    contact_b: wp.array
    dist: wp.array


@wp.kernel
def _broadphase(xpos: wp.array(dtype=wp.vec3), radius: wp.array(dtype=float), nconmax: int,
                ncon: wp.array(dtype=int), contact_a: wp.array(dtype=int),
                contact_b: wp.array(dtype=int), dist: wp.array(dtype=float)):
    i, j = wp.tid()
    if i < j:
        d = wp.length(xpos[i] - xpos[j]) - radius[i] - radius[j]
        if d < 0.0:
            k = wp.atomic_add(ncon, 0, 1)
            if k < nconmax:
                contact_a[k] = i
                contact_b[k] = j
                dist[k] = d


@wp.kernel
def _solve(xpos: wp.array(dtype=wp.vec3), qvel: wp.array(dtype=wp.vec3), ncon: wp.array(dtype=int),
           contact_a: wp.array(dtype=int), contact_b: wp.array(dtype=int), dist: wp.array(dtype=float),
           stiffness: float, dt: float):
    k = wp.tid()
    if k < ncon[0]:
        a = contact_a[k]
        b = contact_b[k]
        n = wp.normalize(xpos[a] - xpos[b])
        f = -stiffness * dist[k] * dt
        wp.atomic_add(qvel, a, n * f)
        wp.atomic_add(qvel, b, n * (-f))


@wp.kernel
def _advance(xpos: wp.array(dtype=wp.vec3), qvel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    qvel[i] = qvel[i] + wp.vec3(0.0, 0.0, -9.81) * dt
    xpos[i] = xpos[i] + qvel[i] * dt


def collision(m: Model, d: Data) -> None:
    d.ncon.zero_()
    wp.launch(_broadphase, dim=(m.ngeom, m.ngeom), inputs=[d.xpos, m.radius, m.nconmax],
              outputs=[d.ncon, d.contact_a, d.contact_b, d.dist])


def constraint(m: Model, d: Data) -> None:
    ncon = int(d.ncon.numpy()[0])
    if ncon == 0:
        return
    wp.launch(_solve, dim=min(ncon, m.nconmax),
              inputs=[d.xpos, d.qvel, d.ncon, d.contact_a, d.contact_b, d.dist, 1.0e4, m.timestep])


def fwd_position(m: Model, d: Data) -> None:
    collision(m, d)
    constraint(m, d)


def step(m: Model, d: Data) -> None:
    fwd_position(m, d)
    wp.launch(_advance, dim=m.ngeom, inputs=[d.xpos, d.qvel, m.timestep])


class Viewer:
    def __init__(self, m: Model, d: Data, use_graph: bool = True):
        self.m, self.d = m, d
        self.graph: Optional[wp.Graph] = None
        if use_graph and wp.get_device().is_cuda:
            step(m, d)
            with wp.ScopedCapture() as capture:
                step(m, d)
            self.graph = capture.graph

    def frame(self):
        if self.graph is not None:
            wp.capture_launch(self.graph)
        else:
            step(self.m, self.d)
        return self.d.xpos.numpy()
