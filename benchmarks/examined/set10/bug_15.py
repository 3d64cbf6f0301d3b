import pickle
from dataclasses import dataclass, field

import torch


@dataclass
class KVGroup:
    layers: list
    block_size: int
    num_chunk_blocks: int
    host_pool: list = field(default_factory=list)

    def chunk_shape(self):
        t = self.layers[0]
        return (len(self.layers), self.num_chunk_blocks, *t.shape[1:])


class TransferContext:
    def __init__(self, groups, sock, device="cuda"):
        self.groups = groups
        self.sock = sock
        self.device = torch.device(device)
        self.store_stream = torch.cuda.Stream(device=self.device)

    def _host_chunk(self, group):
        if group.host_pool:
            return group.host_pool.pop()
        return torch.empty(group.chunk_shape(), dtype=group.layers[0].dtype, pin_memory=True)

    def gather(self, group, block_ids):
        """Copy the blocks of one group to pinned chunks (asynchronous on store_stream)."""
        n = group.num_chunk_blocks
        chunks = []
        with torch.cuda.stream(self.store_stream):
            for start in range(0, len(block_ids) - n + 1, n):
                ids = torch.tensor(block_ids[start : start + n], device=self.device)
                out = self._host_chunk(group)
                for i, layer in enumerate(group.layers):
                    out[i].copy_(layer.index_select(0, ids), non_blocking=True)
                chunks.append(out)
        return chunks

    def _release(self, group, chunks):
        group.host_pool.extend(chunks)

    def submit_store(self, keys, block_ids_per_group):
        self.store_stream.wait_stream(torch.cuda.current_stream(self.device))
        gathered = []
        for group, block_ids in zip(self.groups, block_ids_per_group):
            gathered.append(self.gather(group, block_ids))
        payload = [[c.view(torch.uint8).numpy() for c in chunks] for chunks in gathered]
        message = pickle.dumps((keys, payload), protocol=5)
        self.sock.send(b"STORE", flags=2)
        self.sock.send(message)
        for group, chunks in zip(self.groups, gathered):
            self._release(group, chunks)
        return self.sock.recv() == b"OK"


class WorkerConnector:
    def __init__(self, context, chunk_tokens):
        self.context = context
        self.chunk_tokens = chunk_tokens
        self.pending = []

    def save_kv(self, request_id, token_hashes, block_ids):
        self.pending.append((request_id, token_hashes, block_ids))

    def wait_for_save(self):
        done = []
        for request_id, hashes, block_ids in self.pending:
            if self.context.submit_store(hashes, block_ids):
                done.append(request_id)
        self.pending.clear()
        return done
