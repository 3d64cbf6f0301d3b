"""Ingest of detector packets: one thread packs, another uploads."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class UploadSlot:
    def __init__(self, n):
        self.host = cupyx.empty_pinned(n, dtype=np.int16)
        self.event = cp.cuda.Event(disable_timing=True)
        self.seq = -1


class Uploader(threading.Thread):
    def __init__(self, n, n_packets):
        super().__init__(daemon=True)
        self.inbox = queue.Queue()
        self.ring = None
        self.n, self.n_packets = n, n_packets

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            self.ring = cp.empty((self.n_packets, self.n), dtype=cp.int16)
            while True:
                slot = self.inbox.get()
                if slot is None:
                    break
                self.ring[slot.seq].set(slot.host, stream=stream)
                slot.event.record(stream)
            stream.synchronize()


class PacketIngest:
    def __init__(self, n, n_packets, n_slots=8):
        self.slots = [UploadSlot(n) for _ in range(n_slots)]
        self.uploader = Uploader(n, n_packets)
        self.uploader.start()
        self.cursor = 0

    def acquire(self):
        while True:
            slot = self.slots[self.cursor % len(self.slots)]
            self.cursor += 1
            if slot.event.done:
                return slot

    def push(self, seq, packet):
        slot = self.acquire()
        slot.host[:] = packet
        slot.seq = seq
        self.uploader.inbox.put(slot)

    def close(self):
        self.uploader.inbox.put(None)
        self.uploader.join()
        return self.uploader.ring


def main():
    ingest = PacketIngest(1 << 20, 256)
    for seq in range(256):
        ingest.push(seq, np.full(1 << 20, seq % 1024, dtype=np.int16))
    ring = ingest.close()
    print(ring.max(axis=1).get())


if __name__ == "__main__":
    main()
