import torch
import torch.nn.functional as F


class PolicyParams:
    """One flat fp32 master vector with a bf16 mirror for inference."""

    def __init__(self, sizes):
        self.sizes = sizes
        total = sum(o * i for o, i in sizes)
        self.master = torch.zeros(total, device="cuda")
        self.param_bf16 = torch.zeros(total, dtype=torch.bfloat16, device="cuda")
        self.views = []
        offset = 0
        for o, i in sizes:
            self.views.append(self.param_bf16[offset:offset + o * i].view(o, i))
            offset += o * i


class RolloutBuffer:
    def __init__(self, agents, obs_dim):
        self.stream = torch.cuda.Stream()
        self.obs = torch.zeros(agents, obs_dim, dtype=torch.bfloat16, device="cuda")
        self.actions = torch.zeros(agents, dtype=torch.int64, pin_memory=True)


class PuffeRL:
    def __init__(self, sizes, agents, num_buffers):
        self.default_stream = torch.cuda.Stream()
        self.params = PolicyParams(sizes)
        self.buffers = [RolloutBuffer(agents, sizes[0][1]) for _ in range(num_buffers)]
        torch.cuda.synchronize()

    def load_weights(self, path):
        flat = torch.load(path, map_location="cpu")
        with torch.cuda.stream(self.default_stream):
            self.params.master.copy_(flat)
            self.params.param_bf16.copy_(self.params.master)
        return flat.numel()

    @torch.no_grad()
    def forward(self, x):
        for i, w in enumerate(self.params.views):
            x = F.linear(x, w)
            if i < len(self.params.views) - 1:
                x = F.relu(x)
        return x

    def rollout(self, observations):
        for buf, obs in zip(self.buffers, observations):
            with torch.cuda.stream(buf.stream):
                buf.obs.copy_(obs)
                logits = self.forward(buf.obs)
                buf.actions.copy_(logits.argmax(dim=-1), non_blocking=True)
        for buf in self.buffers:
            buf.stream.synchronize()
        return [buf.actions.clone() for buf in self.buffers]


def evaluate(path, env, steps):
    agent = PuffeRL([(512, 128), (512, 512), (9, 512)], agents=4096, num_buffers=4)
    agent.load_weights(path)
    obs = env.reset()
    score = 0.0
    for _ in range(steps):
        actions = agent.rollout(obs)
        obs, reward = env.step([a.numpy() for a in actions])
        score += float(reward)
    return score
