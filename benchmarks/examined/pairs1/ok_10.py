"""Decode side of disaggregated serving: KV blocks arrive over a socket."""
import socket
import threading

import torch

BLOCK = (16, 8, 64)
NBYTES = 16 * 8 * 64 * 2


class KVReceiver:
    def __init__(self, sock, kv_cache, depth=2):
        self.sock = sock
        self.kv = kv_cache
        self.staging = [torch.empty(NBYTES, dtype=torch.uint8, pin_memory=True) for _ in range(depth)]
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.stream = torch.cuda.Stream()

    def _recv_into(self, buf):
        view = memoryview(buf.numpy())
        got = 0
        while got < NBYTES:
            got += self.sock.recv_into(view[got:])

    def receive(self, block_ids):
        compute = torch.cuda.current_stream()
        self.stream.wait_stream(compute)
        for n, block in enumerate(block_ids):
            slot = n % len(self.staging)
            self.events[slot].synchronize()
            self._recv_into(self.staging[slot])
            with torch.cuda.stream(self.stream):
                src = self.staging[slot].view(torch.float16).view(BLOCK)
                self.kv[block].copy_(src, non_blocking=True)
                self.events[slot].record()
        compute.wait_stream(self.stream)


def prefill_peer(sock, blocks):
    for i in range(blocks):
        payload = torch.full(BLOCK, float(i % 7), dtype=torch.float16)
        sock.sendall(payload.numpy().tobytes())


def main(requests=10, per_request=12):
    a, b = socket.socketpair()
    peer = threading.Thread(target=prefill_peer, args=(a, requests * per_request))
    peer.start()
    kv = torch.zeros(64, *BLOCK, device="cuda", dtype=torch.float16)
    receiver = KVReceiver(b, kv)
    total = torch.zeros((), device="cuda")
    for r in range(requests):
        ids = [(r * per_request + i) % 64 for i in range(per_request)]
        receiver.receive(ids)
        total += kv[ids].float().mean()
    peer.join()
    print(total.item())


if __name__ == "__main__":
    main()
