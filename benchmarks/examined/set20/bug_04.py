"""Asynchronous expert-parallel load balancing worker."""
import threading

import torch
import torch.distributed as dist


class EplbModelState:
    def __init__(self, expert_weights, ep_group):
        # expert_weights[layer] is a list of [num_local_experts, ...] tensors
        self.expert_weights = expert_weights
        self.ep_group = ep_group
        self.expert_buffer = [torch.empty_like(w) for w in expert_weights[0]]
        self.layer_to_transfer = 0
        self.new_map = None
        self.buffer_ready = False
        self.buffer_ready_event = torch.cuda.Event()
        self.cond = threading.Condition()


def transfer_layer(weights, buffers, plan, group):
    """Send the experts that leave and receive the experts that arrive."""
    ops = []
    for w, b in zip(weights, buffers):
        for src, dst_rank in plan["send"]:
            ops.append(dist.P2POp(dist.isend, w[src], dst_rank, group))
        for dst, src_rank in plan["recv"]:
            ops.append(dist.P2POp(dist.irecv, b[dst], src_rank, group))
    if ops:
        for req in dist.batch_isend_irecv(ops):
            req.wait()
    for w, b in zip(weights, buffers):
        for src, dst in plan["local"]:
            b[dst].copy_(w[src])


def move_from_buffer(weights, buffers, changed):
    for w, b in zip(weights, buffers):
        for dst in changed:
            w[dst].copy_(b[dst], non_blocking=True)


class AsyncWorker:
    def __init__(self, state, device):
        self.state = state
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.rearrange = threading.Event()
        self.start_event = torch.cuda.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def trigger(self, new_map):
        self.state.new_map = new_map
        self.state.layer_to_transfer = 0
        self.start_event.record()
        self.rearrange.set()

    def _run(self):
        torch.cuda.set_device(self.device)
        while True:
            self.rearrange.wait()
            self.rearrange.clear()
            self.stream.wait_event(self.start_event)
            self._transfer_all_layers()

    def _transfer_all_layers(self):
        st = self.state
        for layer in range(len(st.expert_weights)):
            with st.cond:
                st.cond.wait_for(lambda: not st.buffer_ready)
            with torch.cuda.stream(self.stream):
                transfer_layer(
                    st.expert_weights[layer], st.expert_buffer,
                    st.new_map[layer], st.ep_group,
                )
                st.buffer_ready_event.record(self.stream)
            with st.cond:
                st.buffer_ready = True


class EplbState:
    def __init__(self, expert_weights, ep_group, device):
        self.model_state = EplbModelState(expert_weights, ep_group)
        self.worker = AsyncWorker(self.model_state, device)

    def step(self):
        """Called on the main thread after every forward pass."""
        st = self.model_state
        with st.cond:
            if not st.buffer_ready:
                return
        layer = st.layer_to_transfer
        torch.cuda.current_stream().wait_event(st.buffer_ready_event)
        move_from_buffer(
            st.expert_weights[layer], st.expert_buffer, st.new_map[layer]["changed"]
        )
        st.layer_to_transfer += 1
        with st.cond:
            st.buffer_ready = False
            st.cond.notify()


def engine_loop(model, batches, expert_weights, ep_group, plan_fn, interval=400):
    device = torch.device("cuda", torch.cuda.current_device())
    eplb = EplbState(expert_weights, ep_group, device)
    for i, batch in enumerate(batches):
        model(batch)
        eplb.step()
        if i % interval == interval - 1:
            eplb.worker.trigger(plan_fn())
