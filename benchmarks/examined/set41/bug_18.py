"""Policy in torch, environment physics in warp, sharing device memory."""
import torch
import torch.nn as nn
import warp as wp

wp.init()


@wp.kernel
def apply_actions(
    action: wp.array2d(dtype=float),
    state: wp.array2d(dtype=float),
    dt: float,
):
    i, j = wp.tid()
    vel = state[i, j + 8] + wp.clamp(action[i, j], -1.0, 1.0) * dt
    state[i, j + 8] = vel
    state[i, j] = state[i, j] + vel * dt


@wp.kernel
def score(state: wp.array2d(dtype=float), reward: wp.array(dtype=float)):
    i = wp.tid()
    r = float(0.0)
    for j in range(8):
        r = r - state[i, j] * state[i, j]
    reward[i] = r


class Policy(nn.Module):
    def __init__(self, obs=16, act=8, hidden=1024):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs, hidden), nn.ELU(),
            nn.Linear(hidden, hidden), nn.ELU(),
            nn.Linear(hidden, act),
        )

    def forward(self, obs):
        return torch.tanh(self.net(obs))


class WarpEnv:
    def __init__(self, count, device="cuda:0"):
        self.count, self.device = count, device
        self.state = wp.zeros((count, 16), dtype=float, device=device)
        self.reward = wp.zeros(count, dtype=float, device=device)
        self.obs_view = wp.to_torch(self.state)
        self.reward_view = wp.to_torch(self.reward)

    def step(self, action):
        wp.launch(
            apply_actions,
            dim=(self.count, 8),
            inputs=[action, self.state, 1.0 / 60.0],
            device=self.device,
        )
        wp.launch(score, dim=self.count, inputs=[self.state, self.reward], device=self.device)


class Rollout:
    def __init__(self, envs=16384):
        self.policy = Policy().cuda().eval()
        self.env = WarpEnv(envs)
        self.stream = torch.cuda.Stream()
        self.action = torch.zeros(envs, 8, device="cuda")
        self.action_wp = wp.from_torch(self.action)
        torch.cuda.synchronize()

    @torch.inference_mode()
    def collect(self, horizon):
        rewards = []
        with torch.cuda.stream(self.stream):
            for _ in range(horizon):
                out = self.policy(self.env.obs_view)
                self.action.copy_(out)
                self.env.step(self.action_wp)
                wp.synchronize_device(self.env.device)
                rewards.append(self.env.reward_view.clone())
            stacked = torch.stack(rewards)
            self.stream.synchronize()
        return stacked.mean(dim=1).cpu()


def main():
    rollout = Rollout()
    for it in range(3):
        print(it, rollout.collect(32).tolist()[-1])


if __name__ == "__main__":
    main()
