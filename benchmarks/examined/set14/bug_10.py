import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(
    pos: wp.array(dtype=wp.vec3),
    vel: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    inv_mass: float,
    dt: float,
):
    i = wp.tid()
    v = vel[i] + force[i] * inv_mass * dt + wp.vec3(0.0, -9.81, 0.0) * dt
    vel[i] = v
    pos[i] = pos[i] + v * dt


@wp.kernel
def bounce(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    p = pos[i]
    if p[1] < 0.0:
        v = vel[i]
        pos[i] = wp.vec3(p[0], 0.0, p[2])
        vel[i] = wp.vec3(v[0], -0.5 * v[1], v[2])


class HoverEnv:
    def __init__(self, num_envs, device="cuda:0", dt=1.0 / 120.0):
        self.num_envs = num_envs
        self.device = wp.get_device(device)
        self.dt = dt
        self.pos = wp.zeros(num_envs, dtype=wp.vec3, device=self.device)
        self.vel = wp.zeros(num_envs, dtype=wp.vec3, device=self.device)
        self.obs_pos = wp.to_torch(self.pos)
        self.obs_vel = wp.to_torch(self.vel)

    def observations(self):
        return torch.cat((self.obs_pos, self.obs_vel), dim=-1)

    def step(self, actions):
        force = wp.from_torch(actions.contiguous(), dtype=wp.vec3)
        wp.launch(
            integrate,
            dim=self.num_envs,
            inputs=[self.pos, self.vel, force, 1.0, self.dt],
            device=self.device,
        )
        wp.launch(bounce, dim=self.num_envs, inputs=[self.pos, self.vel], device=self.device)


class Rollout:
    def __init__(self, env, policy):
        self.env = env
        self.policy = policy.to("cuda:0").eval()
        self.stream = torch.cuda.Stream("cuda:0")

    @torch.no_grad()
    def run(self, horizon):
        rewards = torch.zeros(self.env.num_envs, device="cuda:0")
        kept = []
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            for _ in range(horizon):
                obs = self.env.observations()
                actions = self.policy(obs)
                self.env.step(actions)
                rewards -= (self.env.obs_pos[:, 1] - 1.0).abs()
                kept.append(actions)
        torch.cuda.synchronize()
        wp.synchronize_device(self.env.device)
        return rewards / horizon, torch.stack(kept)
