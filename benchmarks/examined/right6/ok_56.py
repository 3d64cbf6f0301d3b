import jax
import jax.numpy as jnp
import torch


@jax.jit
def simulate(state, key):
    noise = jax.random.normal(key, state.shape)
    return 0.95 * state + 0.1 * jnp.tanh(noise)


class TorchProbe:
    """Evaluates a torch model on JAX states."""

    def __init__(self, dim):
        self.model = torch.nn.Linear(dim, 1).cuda().eval()

    @torch.no_grad()
    def __call__(self, state):
        x = torch.from_dlpack(jax.block_until_ready(state))
        return self.model(x).mean().item()


def main():
    probe = TorchProbe(128)
    key = jax.random.PRNGKey(0)
    state = jnp.zeros((4096, 128), jnp.float32)
    for step in range(50):
        key, sub = jax.random.split(key)
        state = simulate(state, sub)
        if step % 10 == 0:
            print(step, probe(state))


if __name__ == "__main__":
    main()
