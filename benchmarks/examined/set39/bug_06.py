"""Prefix-sharing engine; cached prefixes are brought back by a server thread."""
import queue
import threading

import torch


class CacheServer(threading.Thread):
    def __init__(self, pool, store):
        super().__init__(daemon=True)
        self.pool = pool
        self.store = store
        self.jobs = queue.Queue()
        self.load_stream = torch.cuda.Stream()
        self.start()

    def submit(self, pages, key):
        reply = queue.Queue(1)
        self.jobs.put((pages, key, reply))
        return reply

    def retrieve(self, pages, key):
        host = self.store[key]
        with torch.cuda.stream(self.load_stream):
            table = torch.tensor(pages, dtype=torch.int64).pin_memory()
            table = table.to("cuda", non_blocking=True)
            staged = host[: len(pages)].to("cuda", non_blocking=True)
            self.pool.index_copy_(0, table, staged)
            done = torch.cuda.Event()
            done.record()
        return done

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            pages, key, reply = job
            reply.put(self.retrieve(pages, key))


class Engine:
    def __init__(self, num_pages=512, page=32 * 1024):
        self.pool = torch.randn(num_pages, page, device="cuda")
        self.query = torch.randn(page, device="cuda")
        store = {"system": torch.randn(64, page).pin_memory()}
        torch.cuda.synchronize()
        self.server = CacheServer(self.pool, store)
        self.running = {}
        self.waiting = {}

    def admit(self, rid, pages, key=None):
        self.running[rid] = pages
        if key is not None:
            self.waiting[rid] = self.server.submit(pages, key)

    def decode(self):
        outs = {}
        for rid, pages in self.running.items():
            reply = self.waiting.pop(rid, None)
            if reply is not None:
                torch.cuda.current_stream().wait_event(reply.get())
            table = torch.tensor(pages, device="cuda")
            context = self.pool.index_select(0, table)
            outs[rid] = torch.softmax(context @ self.query, dim=0) @ context
        return outs


def main():
    engine = Engine()
    prefix = list(range(32))
    engine.admit("a", prefix + [100, 101])
    for step in range(8):
        if step == 3:
            engine.admit("b", prefix + [200, 201, 202], key="system")
        outs = engine.decode()
    print({rid: o.norm().item() for rid, o in outs.items()})
    engine.server.jobs.put(None)
    engine.server.join()


if __name__ == "__main__":
    main()
