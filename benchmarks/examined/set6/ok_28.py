from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import warp as wp
from warp.jax_experimental.ffi import jax_callable, jax_kernel

wp.init()


@wp.kernel
def integrate_kernel(
    q: wp.array(dtype=wp.vec3),
    qd: wp.array(dtype=wp.vec3),
    dt: float,
    q_out: wp.array(dtype=wp.vec3),
    qd_out: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    v = qd[i] + wp.vec3(0.0, 0.0, -9.81) * dt
    p = q[i] + v * dt
    if p[2] < 0.0:
        p = wp.vec3(p[0], p[1], 0.0)
        v = wp.vec3(v[0], v[1], -0.5 * v[2])
    q_out[i] = p
    qd_out[i] = v


@wp.kernel
def drag_kernel(qd: wp.array(dtype=wp.vec3), c: float):
    i = wp.tid()
    qd[i] = qd[i] * (1.0 - c * wp.length(qd[i]))


def drag(qd: wp.array(dtype=wp.vec3), c: float):
    wp.launch(drag_kernel, dim=qd.shape, inputs=[qd, c])


jax_integrate = jax_kernel(integrate_kernel, num_outputs=2)
jax_drag = jax_callable(drag, num_outputs=1, in_out_argnames=["qd"])


@partial(jax.jit, static_argnames=("dt", "c"))
def step(q, qd, dt: float, c: float):
    (qd,) = jax_drag(qd, c)
    q, qd = jax_integrate(q, qd, dt)
    return q, qd


class ParticleEnv:
    def __init__(self, n: int, dt: float = 0.01, c: float = 0.01):
        self.dt, self.c = dt, c
        key = jax.random.PRNGKey(0)
        self.q = jax.random.uniform(key, (n, 3)) + jnp.array([0.0, 0.0, 2.0])
        self.qd = jnp.zeros((n, 3))

    def rollout(self, steps: int) -> np.ndarray:
        heights = []
        for _ in range(steps):
            self.q, self.qd = step(self.q, self.qd, self.dt, self.c)
            heights.append(self.q[:, 2].mean())
        return np.asarray(jnp.stack(heights))

    def positions(self) -> np.ndarray:
        return np.asarray(self.q)


if __name__ == "__main__":
    env = ParticleEnv(4096)
    print(env.rollout(200)[-1], env.positions().max())
