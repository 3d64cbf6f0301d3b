"""Jacobi smoother exposed to JAX through Warp's FFI callable."""
import jax
import jax.numpy as jnp
import warp as wp
from warp.jax_experimental.ffi import GraphMode, jax_callable

wp.init()
SWEEPS = 40


@wp.kernel
def scale_rhs(rhs: wp.array(dtype=float), h2: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = rhs[i] * h2


@wp.kernel
def sweep(
    rhs: wp.array(dtype=float),
    u: wp.array(dtype=float),
    u_next: wp.array(dtype=float),
):
    i = wp.tid()
    n = u.shape[0]
    if i == 0 or i == n - 1:
        u_next[i] = 0.0
    else:
        u_next[i] = 0.5 * (u[i - 1] + u[i + 1] - rhs[i])


class SmootherState:
    """Scratch arrays and the stream of the smoother, kept per problem size."""

    def __init__(self):
        self.device = wp.get_device("cuda:0")
        self.stream = wp.Stream(self.device)
        self.scratch = {}

    def arrays(self, n):
        if n not in self.scratch:
            self.scratch[n] = tuple(
                wp.zeros(n, dtype=float, device=self.device) for _ in range(3)
            )
            wp.synchronize_device(self.device)
        return self.scratch[n]


STATE = SmootherState()


def smooth(rhs: wp.array(dtype=float), out: wp.array(dtype=float)):
    n = rhs.shape[0]
    scaled, u, u_next = STATE.arrays(n)
    h = 1.0 / float(n - 1)
    wp.launch(scale_rhs, dim=n, inputs=[rhs, h * h], outputs=[scaled])
    u.zero_()
    for _ in range(SWEEPS):
        wp.launch(sweep, dim=n, inputs=[scaled, u], outputs=[u_next], stream=STATE.stream)
        u, u_next = u_next, u
    wp.wait_stream(STATE.stream)
    wp.copy(out, u)


smooth_op = jax_callable(smooth, num_outputs=1, graph_mode=GraphMode.NONE)


@jax.jit
def residual_norm(rhs):
    (u,) = smooth_op(rhs)
    h = 1.0 / (rhs.shape[0] - 1)
    lap = (u[:-2] - 2.0 * u[1:-1] + u[2:]) / (h * h)
    return jnp.linalg.norm(lap - rhs[1:-1])


def main(n=1 << 20, rounds=5):
    norms = []
    for k in range(rounds):
        rhs = jnp.sin(jnp.linspace(0.0, (k + 1) * jnp.pi, n, dtype=jnp.float32))
        norms.append(residual_norm(rhs))
    return [float(x) for x in norms]


if __name__ == "__main__":
    print(main())
