import jax
import jax.numpy as jnp
import torch


@jax.jit
def reward(observations, actions):
    dist = jnp.linalg.norm(observations[:, :3] - observations[:, 3:6], axis=-1)
    effort = jnp.square(actions).sum(-1)
    return jnp.exp(-dist) - 0.01 * effort


@jax.jit
def advance(state, actions):
    pos, vel = state[:, :6], state[:, 6:]
    pull = jnp.concatenate([actions, -actions], axis=-1)
    vel = 0.98 * vel + 0.05 * pull
    return jnp.concatenate([pos + 0.05 * vel, vel], axis=-1)


class JaxEnv:
    """Vectorized environment in JAX with a torch interface."""

    def __init__(self, n_envs, seed=0):
        self.state = jax.random.normal(jax.random.PRNGKey(seed), (n_envs, 12), dtype=jnp.float32)
        self._last = None

    def step(self, actions):
        shared = jax.dlpack.from_dlpack(actions.detach().contiguous())
        self.state = advance(self.state, shared)
        rewards = reward(self.state, shared)
        jax.block_until_ready((self.state, rewards))
        self._last = (self.state, rewards)
        return torch.from_dlpack(self.state), torch.from_dlpack(rewards)


class Policy(torch.nn.Module):
    def __init__(self, obs_dim=12, act_dim=3, width=256):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(obs_dim, width), torch.nn.Tanh(), torch.nn.Linear(width, act_dim)
        )
        self.log_std = torch.nn.Parameter(torch.zeros(act_dim))

    def distribution(self, obs):
        return torch.distributions.Normal(self.net(obs), self.log_std.exp())


def rollout(env, policy, obs, horizon):
    log_probs, rewards = [], []
    for _ in range(horizon):
        dist = policy.distribution(obs)
        actions = dist.sample()
        log_probs.append(dist.log_prob(actions).sum(-1))
        next_obs, r = env.step(actions)
        rewards.append(r.clone())
        obs = next_obs.clone()
        torch.cuda.current_stream().synchronize()
    return torch.stack(log_probs), torch.stack(rewards), obs


def train(n_envs=4096, horizon=32, iterations=100):
    env, policy = JaxEnv(n_envs), Policy().cuda()
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    obs = torch.from_dlpack(env.state).clone()
    torch.cuda.current_stream().synchronize()
    history = []
    for _ in range(iterations):
        log_probs, rewards, obs = rollout(env, policy, obs, horizon)
        returns = rewards.flip(0).cumsum(0).flip(0)
        advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(log_probs * advantage).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(rewards.mean().item())
    return history
