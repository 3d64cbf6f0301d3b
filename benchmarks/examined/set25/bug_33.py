"""Vectorised environment stepped by Warp, policy evaluated by PyTorch."""
import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(state: wp.array2d(dtype=float), action: wp.array2d(dtype=float), dt: float):
    e, k = wp.tid()
    v = state[e, k] + action[e, k] * dt
    state[e, k] = wp.clamp(v, -5.0, 5.0)


class ArenaEnv:
    def __init__(self, num_envs, dofs, device="cuda:0"):
        self.device = device
        self.num_envs, self.dofs = num_envs, dofs
        self.state = torch.zeros(num_envs, dofs, device=device)
        self.action = torch.zeros(num_envs, dofs, device=device)
        self._wp_state = wp.from_torch(self.state)
        self._wp_action = wp.from_torch(self.action)
        torch.cuda.synchronize()

    def step(self, action):
        self.action.copy_(action)
        wp.launch(integrate, dim=(self.num_envs, self.dofs),
                  inputs=[self._wp_state, self._wp_action, 0.02], device=self.device)
        reward = -(self.state ** 2).sum(dim=1)
        return self.state, reward


class Policy(torch.nn.Module):
    def __init__(self, dofs):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(dofs, 256), torch.nn.ELU(), torch.nn.Linear(256, dofs))

    def forward(self, obs):
        return self.net(obs)


def rollout(env, policy, steps):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    total = []
    with torch.cuda.stream(stream), torch.no_grad():
        obs = env.state
        for _ in range(steps):
            obs, reward = env.step(policy(obs))
            total.append(reward.mean())
        returns = torch.stack(total)
    stream.synchronize()
    return returns.cpu()


def main():
    env = ArenaEnv(8192, 32)
    policy = Policy(32).cuda()
    print(rollout(env, policy, 100).sum().item())
    wp.synchronize()


if __name__ == "__main__":
    main()
