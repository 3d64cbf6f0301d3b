"""A JAX physics step inside a torch loop; control passes through the host on every crossing."""
import jax
import jax.numpy as jnp
import torch


@jax.jit
def pendulum(state, torque):
    theta, omega = state[:, 0], state[:, 1]

    def body(_, carry):
        th, om = carry
        om = om + 0.01 * (-9.8 * jnp.sin(th) + torque)
        return th + 0.01 * om, om

    th, om = jax.lax.fori_loop(0, 10, body, (theta, omega))
    return jnp.stack([th, om], axis=1)


class Simulator:
    def __init__(self, n: int):
        self.state = jnp.zeros((n, 2)).at[:, 0].set(jnp.linspace(-1.0, 1.0, n))

    def step(self, torque: torch.Tensor) -> torch.Tensor:
        torque = torque.detach().contiguous()
        torch.cuda.current_stream().synchronize()
        self.state = pendulum(self.state, jax.dlpack.from_dlpack(torque))
        self.state.block_until_ready()
        view = torch.from_dlpack(self.state)
        out = view.clone()
        torch.cuda.current_stream().synchronize()
        return out


def main():
    n = 4096
    sim = Simulator(n)
    policy = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).cuda()
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    state = sim.step(torch.zeros(n, device="cuda"))
    for step in range(100):
        action = policy(state).squeeze(-1)
        loss = (action + state[:, 0] * 2 + state[:, 1]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = sim.step(action)
    print(loss.item(), state.abs().mean().item())


if __name__ == "__main__":
    main()
