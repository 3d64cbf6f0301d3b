from concurrent.futures import ThreadPoolExecutor

import torch


class HTTPTransport:
    """Receives a peer's checkpoint as host tensors."""

    def __init__(self, fetch):
        self.fetch = fetch

    def recv_checkpoint(self, step):
        return {k: v.pin_memory() for k, v in self.fetch(step).items()}


class Manager:
    def __init__(self, model, optimizer, transport, device):
        self.model = model
        self.optimizer = optimizer
        self.transport = transport
        self.device = device
        self.recovery_stream = torch.cuda.Stream(device)
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.pending = None
        self.step = 0

    def _recover(self, step):
        torch.cuda.set_device(self.device)
        host_state = self.transport.recv_checkpoint(step)
        with torch.cuda.stream(self.recovery_stream):
            state = {k: v.to(self.device, non_blocking=True) for k, v in host_state.items()}
            event = self.recovery_stream.record_event()
        return state, event, step

    def start_quorum(self, behind, max_step):
        if behind:
            self.pending = self.executor.submit(self._recover, max_step)

    @torch.no_grad()
    def _apply_pending_state(self):
        state, event, step = self.pending.result()
        self.pending = None
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        own = self.model.state_dict()
        for key, value in state.items():
            own[key].copy_(value)
            value.record_stream(current)
        self.step = step

    def should_commit(self, healthy):
        if self.pending is not None:
            self._apply_pending_state()
            return False
        return healthy


def train(model, loader, transport, quorum, device=torch.device("cuda", 0)):
    torch.cuda.set_device(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    manager = Manager(model, optimizer, transport, device)
    for x, y in loader:
        behind, max_step, healthy = quorum(manager.step)
        manager.start_quorum(behind, max_step)
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        if manager.should_commit(healthy):
            optimizer.step()
            manager.step += 1
    manager.executor.shutdown()
