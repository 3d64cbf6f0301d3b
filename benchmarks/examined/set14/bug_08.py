import threading

import torch


class DeviceReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim, device="cuda"):
        self.capacity = capacity
        self.device = torch.device(device)
        self.storage = {
            "obs": torch.empty(capacity, obs_dim, device=self.device),
            "action": torch.empty(capacity, act_dim, device=self.device),
            "reward": torch.empty(capacity, device=self.device),
            "next_obs": torch.empty(capacity, obs_dim, device=self.device),
        }
        self._lock = threading.Lock()
        self._cursor = 0
        self._size = 0

    def __len__(self):
        return self._size

    def extend(self, data):
        n = data["reward"].shape[0]
        with self._lock:
            index = (torch.arange(n, device=self.device) + self._cursor) % self.capacity
            for key, value in data.items():
                self.storage[key].index_copy_(0, index, value)
            self._cursor = (self._cursor + n) % self.capacity
            self._size = min(self._size + n, self.capacity)

    def sample(self, batch_size):
        with self._lock:
            index = torch.randint(self._size, (batch_size,), device=self.device)
            batch = {key: value.index_select(0, index) for key, value in self.storage.items()}
        return batch


class Collector(threading.Thread):
    def __init__(self, env, buffer, steps):
        super().__init__(daemon=True)
        self.env = env
        self.buffer = buffer
        self.steps = steps
        self.stream = torch.cuda.Stream(buffer.device)
        self.stream.wait_stream(torch.cuda.current_stream(buffer.device))

    def run(self):
        with torch.cuda.stream(self.stream):
            obs = self.env.reset()
            for _ in range(self.steps):
                action = self.env.sample_actions()
                next_obs, reward = self.env.step(action)
                self.buffer.extend(
                    {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs}
                )
                obs = next_obs
            self.stream.synchronize()


def train(env, agent, optimizer, obs_dim, act_dim, updates, batch_size=256, warmup=4096):
    buffer = DeviceReplayBuffer(1_000_000, obs_dim, act_dim)
    collector = Collector(env, buffer, steps=updates)
    collector.start()
    while len(buffer) < warmup:
        collector.join(0.01)
    for _ in range(updates):
        batch = buffer.sample(batch_size)
        loss = agent.td_loss(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    collector.join()
    return agent
