import torch


def _map(tree, fn):
    if isinstance(tree, dict):
        return {k: _map(v, fn) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_map(v, fn) for v in tree)
    return fn(tree)


class TensorTree:
    def __init__(self, data):
        self.data = data

    def __getitem__(self, key):
        return self.data[key]

    def _any_cuda(self):
        found = []
        _map(self.data, lambda t: found.append(t.is_cuda))
        return any(found)

    def to(self, device, non_blocking_pin=False):
        device = torch.device(device)

        def move(t):
            if non_blocking_pin and device.type == "cuda" and not t.is_cuda and not t.is_pinned():
                t = t.pin_memory()
            return t.to(device, non_blocking=True)

        out = TensorTree(_map(self.data, move))
        if device.type != "cuda" and self._any_cuda():
            torch.cuda.current_stream().synchronize()
        return out

    def apply(self, fn):
        return TensorTree(_map(self.data, fn))

    def numpy(self):
        return _map(self.data, lambda t: t.numpy())


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity = capacity
        self.items = []
        self.cursor = 0

    def extend(self, tree):
        if len(self.items) < self.capacity:
            self.items.append(tree)
        else:
            self.items[self.cursor] = tree
            self.cursor = (self.cursor + 1) % self.capacity

    def sample(self, rng):
        return self.items[int(rng.integers(len(self.items)))]


@torch.no_grad()
def collect(env, policy, buffer, frames, device="cuda"):
    obs = env.reset()
    for _ in range(frames):
        batch = TensorTree({"observation": obs}).to(device, non_blocking_pin=True)
        action = policy(batch["observation"])
        rollout = TensorTree({"observation": batch["observation"], "action": action}).to("cpu")
        obs, reward, done = env.step(rollout["action"].numpy())
        rollout.data["next"] = {"reward": reward, "done": done}
        buffer.extend(rollout)


def train(model, optimizer, buffer, rng, steps, device="cuda"):
    for _ in range(steps):
        batch = buffer.sample(rng).to(device, non_blocking_pin=True)
        loss = (model(batch["observation"]) - batch["action"]).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
