"""Context-side cache transceiver: onboards offloaded KV blocks, then sends them."""
import time

import torch
from nixl._api import nixl_agent


class KVCacheManager:
    """Primary (GPU) and secondary (pinned host) block pools."""

    def __init__(self, primary_blocks, secondary_blocks, block_elems):
        self.primary = torch.zeros(primary_blocks, block_elems, device="cuda", dtype=torch.half)
        self.secondary = torch.zeros(secondary_blocks, block_elems, dtype=torch.half, pin_memory=True)
        self.onboard_stream = torch.cuda.Stream()
        self.free_primary = list(range(primary_blocks))
        self.location = {}
        self.pinned = {}
        self._onboard_done = torch.cuda.Event()
        torch.cuda.synchronize()

    def add_offloaded(self, block_id, slot, data):
        self.secondary[slot].copy_(data)
        self.location[block_id] = ("secondary", slot)

    def pin_and_onboard(self, block_ids):
        issued = False
        with torch.cuda.stream(self.onboard_stream):
            for block_id in block_ids:
                self.pinned[block_id] = self.pinned.get(block_id, 0) + 1
                tier, slot = self.location[block_id]
                if tier == "secondary":
                    dst = self.free_primary.pop()
                    self.primary[dst].copy_(self.secondary[slot], non_blocking=True)
                    self.location[block_id] = ("primary", dst)
                    issued = True
            if issued:
                self._onboard_done.record()
        return issued

    def onboard_event(self):
        return self._onboard_done

    def unpin(self, block_ids):
        for block_id in block_ids:
            self.pinned[block_id] -= 1

    def primary_view(self, block_id):
        tier, slot = self.location[block_id]
        assert tier == "primary"
        return self.primary[slot]


class TransferLease:
    def __init__(self, manager, block_ids):
        self.manager = manager
        self.block_ids = block_ids
        self.issued_onboard_copies = manager.pin_and_onboard(block_ids)

    def sync_ready_for_format(self, stream):
        if self.issued_onboard_copies:
            stream.wait_event(self.manager.onboard_event())

    def release(self):
        self.manager.unpin(self.block_ids)


class CacheSender:
    def __init__(self, manager, remote_name, remote_descs):
        self.manager = manager
        self.agent = nixl_agent("ctx")
        self.agent.register_memory([manager.primary])
        self.remote_name = remote_name
        self.remote_descs = remote_descs
        self.transfer_stream = torch.cuda.Stream()

    def send(self, request_id, block_ids):
        lease = TransferLease(self.manager, block_ids)
        lease.sync_ready_for_format(self.transfer_stream)
        views = [self.manager.primary_view(b) for b in block_ids]
        local = self.agent.get_xfer_descs(views)
        handle = self.agent.initialize_xfer(
            "WRITE", local, self.remote_descs[request_id], self.remote_name, str(request_id).encode()
        )
        self.agent.transfer(handle)
        while self.agent.check_xfer_state(handle) == "PROC":
            time.sleep(1e-4)
        self.agent.release_xfer_handle(handle)
        lease.release()


def respond(requests, remote_name, remote_descs, block_elems=1 << 16):
    manager = KVCacheManager(256, 1024, block_elems)
    for block_id in range(128):
        manager.add_offloaded(block_id, block_id, torch.randn(block_elems).half())
    sender = CacheSender(manager, remote_name, remote_descs)
    for request_id, block_ids in requests:
        sender.send(request_id, block_ids)
