"""Structure factor op for JAX; the Warp callback forks to a second stream inside."""
import jax
import jax.numpy as jnp
import warp as wp
from warp.jax_experimental.ffi import GraphMode, jax_callable

wp.init()


@wp.kernel
def phase_sums(pos: wp.array(dtype=wp.vec3), k: wp.array(dtype=wp.vec3),
               use_sin: int, out: wp.array(dtype=float)):
    j = wp.tid()
    total = float(0.0)
    for i in range(pos.shape[0]):
        p = wp.dot(pos[i], k[j])
        if use_sin == 1:
            total += wp.sin(p)
        else:
            total += wp.cos(p)
    out[j] = total


@wp.kernel
def combine(c: wp.array(dtype=float), s: wp.array(dtype=float), inv_n: float,
            out: wp.array(dtype=float)):
    j = wp.tid()
    out[j] = (c[j] * c[j] + s[j] * s[j]) * inv_n


class Workspace:
    def __init__(self):
        self.device = wp.get_device("cuda:0")
        self.side = wp.Stream(self.device)
        self.parts = {}

    def get(self, m):
        if m not in self.parts:
            self.parts[m] = (
                wp.zeros(m, dtype=float, device=self.device),
                wp.zeros(m, dtype=float, device=self.device),
            )
            wp.synchronize_device(self.device)
        return self.parts[m]


WORK = Workspace()


def structure_factor(pos: wp.array(dtype=wp.vec3), k: wp.array(dtype=wp.vec3),
                     out: wp.array(dtype=float)):
    m = k.shape[0]
    c, s = WORK.get(m)
    xla = wp.get_stream(WORK.device)
    xla.wait_stream(WORK.side)
    WORK.side.wait_stream(xla)
    wp.launch(phase_sums, dim=m, inputs=[pos, k, 1], outputs=[s], stream=WORK.side)
    wp.launch(phase_sums, dim=m, inputs=[pos, k, 0], outputs=[c], stream=xla)
    xla.wait_stream(WORK.side)
    wp.launch(combine, dim=m, inputs=[c, s, 1.0 / float(pos.shape[0])],
              outputs=[out], stream=xla)
    WORK.side.wait_stream(xla)


_op = jax_callable(structure_factor, num_outputs=1, graph_mode=GraphMode.NONE)


@jax.jit
def mean_intensity(pos, k):
    (sk,) = _op(pos, k, output_dims=k.shape[0])
    return jnp.mean(sk), sk


def main(particles=20000, waves=4096, rounds=4):
    key = jax.random.PRNGKey(0)
    out = []
    for _ in range(rounds):
        key, a, b = jax.random.split(key, 3)
        pos = jax.random.uniform(a, (particles, 3), dtype=jnp.float32)
        k = jax.random.normal(b, (waves, 3), dtype=jnp.float32) * 6.0
        out.append(mean_intensity(pos, k)[0])
    return [float(v) for v in out]


if __name__ == "__main__":
    print(main())
