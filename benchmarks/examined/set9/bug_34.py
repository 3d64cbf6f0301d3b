import jax
import jax.numpy as jnp
import torch
import torch.utils.dlpack


@jax.jit
def rollout_cost(states, goals, weights):
    delta = states - goals[None]
    return jnp.einsum("tnd,d->n", delta * delta, weights)


class TorchPolicy(torch.nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=512):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(obs_dim, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, act_dim)
        )

    def forward(self, obs):
        return self.net(obs)


class Planner:
    """Samples with a torch policy on its own stream; scores the samples in JAX."""

    def __init__(self, policy, dynamics, goals, weights, horizon, device="cuda"):
        self.policy = policy.to(device)
        self.dynamics = dynamics
        self.goals = jnp.asarray(goals)
        self.weights = jnp.asarray(weights)
        self.horizon = horizon
        self.stream = torch.cuda.Stream(device)

    @torch.no_grad()
    def _sample(self, obs, noise):
        states = []
        for t in range(self.horizon):
            action = self.policy(obs) + noise[t]
            obs = self.dynamics(obs, action)
            states.append(obs)
        return torch.stack(states)

    def plan(self, obs, noise):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            states = self._sample(obs, noise)
            capsule = torch.utils.dlpack.to_dlpack(states)
        states_jax = jax.dlpack.from_dlpack(capsule)
        cost = rollout_cost(states_jax, self.goals, self.weights)
        best = int(jnp.argmin(cost))
        torch.cuda.current_stream().wait_stream(self.stream)
        return noise[:, best], float(cost[best])


def control_loop(planner, env, steps, samples, act_dim):
    obs = env.reset()
    generator = torch.Generator(device="cuda").manual_seed(0)
    for _ in range(steps):
        noise = torch.randn(planner.horizon, samples, act_dim, device="cuda", generator=generator)
        batch = obs.expand(samples, -1).contiguous()
        actions, cost = planner.plan(batch, noise)
        obs = env.step(actions[0])
        print(f"cost {cost:.4f}")
