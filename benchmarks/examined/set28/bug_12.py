import threading

import torch
import torch.distributed as dist


class EplbState:
    """Moves experts between ranks one layer at a time in the background."""

    def __init__(self, expert_weights, plans, ep_group):
        self.expert_weights = expert_weights
        self.plans = plans
        self.group = ep_group
        self.rank = dist.get_rank(ep_group)
        self.expert_buffer = [torch.empty_like(w) for w in expert_weights[0]]
        self.buffer_lock = threading.Lock()
        self.buffer_ready = False
        self.layer_to_transfer = 0
        self.applied = torch.cuda.Event()
        self.wake = threading.Condition(self.buffer_lock)
        self.thread = None

    def start(self):
        self.thread = threading.Thread(target=self._transfer_loop, daemon=True)
        self.thread.start()

    def _shuffle_layer(self, weights, plan):
        ops = []
        for src_rank, src_slot, dst_rank, dst_slot in plan:
            for w, b in zip(weights, self.expert_buffer):
                if src_rank == dst_rank == self.rank:
                    b[dst_slot].copy_(w[src_slot])
                elif src_rank == self.rank:
                    ops.append(dist.P2POp(dist.isend, w[src_slot], dst_rank, self.group))
                elif dst_rank == self.rank:
                    ops.append(dist.P2POp(dist.irecv, b[dst_slot], src_rank, self.group))
        if ops:
            for req in dist.batch_isend_irecv(ops):
                req.wait()

    def _transfer_loop(self):
        stream = torch.cuda.Stream()
        for layer, weights in enumerate(self.expert_weights):
            with self.wake:
                while self.buffer_ready:
                    self.wake.wait()
                stream.wait_event(self.applied)
                with torch.cuda.stream(stream):
                    self._shuffle_layer(weights, self.plans[layer])
                self.layer_to_transfer = layer
                self.buffer_ready = True

    def step(self):
        if not self.buffer_lock.acquire(blocking=False):
            return
        try:
            if self.buffer_ready:
                self._move_from_buffer()
                self.applied.record()
                self.buffer_ready = False
                self.wake.notify()
        finally:
            self.buffer_lock.release()

    def _move_from_buffer(self):
        layer = self.layer_to_transfer
        for _, _, dst_rank, dst_slot in self.plans[layer]:
            if dst_rank == self.rank:
                for w, b in zip(self.expert_weights[layer], self.expert_buffer):
                    w[dst_slot].copy_(b[dst_slot], non_blocking=True)

    def finished(self):
        return not self.thread.is_alive() and not self.buffer_ready


@torch.inference_mode()
def serve(model, batches, plans, ep_group):
    state = EplbState([m.expert_tensors() for m in model.moe_layers()], plans, ep_group)
    torch.cuda.synchronize()
    state.start()
    for batch in batches:
        yield model(batch)
        state.step()
