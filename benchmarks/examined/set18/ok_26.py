import copy
import threading

import torch
import torch.distributed as dist


class WeightSyncThread(threading.Thread):
    """Receives policy weights into a shadow copy while the rollout keeps running."""

    def __init__(self, model: torch.nn.Module, group, versions: int):
        super().__init__(daemon=True)
        self.device = next(model.parameters()).device
        self.buffer = [p.detach().clone() for p in model.parameters()]
        self.group = group
        self.versions = versions
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))

        self.lock = threading.Lock()
        self.buffer_version = 0
        self.buffer_ready: torch.cuda.Event | None = None
        self.promoted = torch.cuda.Event()
        self.buffer_free = threading.Event()
        self.buffer_free.set()

    def run(self):
        torch.cuda.set_device(self.device)
        for _ in range(self.versions):
            self.buffer_free.wait()
            self.buffer_free.clear()
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(self.promoted)
                for tensor in self.buffer:
                    dist.broadcast(tensor, src=0, group=self.group)
                ready = torch.cuda.Event()
                ready.record(self.stream)
            with self.lock:
                self.buffer_version += 1
                self.buffer_ready = ready


class RolloutWorker:
    def __init__(self, model, group, versions):
        self.model = model
        self.live_version = 0
        self.sync = WeightSyncThread(model, group, versions)
        self.sync.start()

    @torch.no_grad()
    def sync_buffer_to_live(self):
        with self.sync.lock:
            version, ready = self.sync.buffer_version, self.sync.buffer_ready
        if version == self.live_version:
            return False
        current = torch.cuda.current_stream()
        current.wait_event(ready)
        for live, shadow in zip(self.model.parameters(), self.sync.buffer):
            live.copy_(shadow)
        self.sync.promoted.record(current)
        self.live_version = version
        self.sync.buffer_free.set()
        return True

    @torch.no_grad()
    def rollout(self, obs: torch.Tensor, horizon: int):
        actions = []
        for _ in range(horizon):
            self.sync_buffer_to_live()
            action = self.model(obs).tanh()
            obs = 0.9 * obs + 0.1 * action
            actions.append(action)
        return torch.stack(actions)


def policy_loop(model, group, versions):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(versions):
        x = torch.randn(256, 128, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for p in model.parameters():
            dist.broadcast(p.data, src=0, group=group)
    torch.cuda.synchronize()


def main(versions=16):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    group = dist.new_group([0, 1])
    model = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.ReLU(), torch.nn.Linear(512, 128)).cuda()
    if rank == 0:
        policy_loop(copy.deepcopy(model), group, versions)
    else:
        worker = RolloutWorker(model, group, versions)
        while worker.live_version < versions:
            traj = worker.rollout(torch.randn(64, 128, device="cuda"), horizon=32)
            print(worker.live_version, traj.mean().item())
        worker.sync.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
