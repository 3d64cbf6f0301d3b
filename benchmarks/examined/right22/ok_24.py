import threading

import torch


class Node:
    __slots__ = ("value", "next")

    def __init__(self, value):
        self.value = value
        self.next = None


class Channel:
    """A linked list behind a lock."""

    def __init__(self):
        self.head = self.tail = None
        self.lock = threading.Condition()

    def push(self, value):
        node = Node(value)
        with self.lock:
            if self.tail is None:
                self.head = self.tail = node
            else:
                self.tail.next = node
                self.tail = node
            self.lock.notify()

    def pull(self):
        with self.lock:
            while self.head is None:
                self.lock.wait()
            node = self.head
            self.head = node.next
            if self.head is None:
                self.tail = None
            return node.value


class Dumper(threading.Thread):
    def __init__(self, inbox, spare):
        super().__init__()
        self.inbox = inbox
        self.spare = spare
        self.checks = []

    def run(self):
        while True:
            item = self.inbox.pull()
            if item is None:
                break
            host, landed = item
            landed.synchronize()
            self.checks.append(float(host.double().sum()))
            self.spare.push(host)


class Logger:
    def __init__(self, size, depth):
        self.inbox, self.spare = Channel(), Channel()
        for _ in range(depth):
            self.spare.push(torch.empty(size).pin_memory())
        self.stream = torch.cuda.Stream()
        self.thread = Dumper(self.inbox, self.spare)
        self.thread.start()

    def log(self, x):
        host = self.spare.pull()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(x, non_blocking=True)
            landed = torch.cuda.Event()
            landed.record()
        x.record_stream(self.stream)
        self.inbox.push((host, landed))

    def close(self):
        self.inbox.push(None)
        self.thread.join()
        return self.thread.checks


def main():
    logger = Logger(1 << 16, depth=3)
    field = torch.randn(1 << 16, device="cuda")
    for _ in range(40):
        field = field.roll(7) * 0.99 + 0.01
        logger.log(field)
    print(logger.close())


if __name__ == "__main__":
    main()
