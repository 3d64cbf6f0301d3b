import threading

import torch


class Mailbox:
    def __init__(self, limit):
        self._limit = limit
        self._letters = []
        self._cond = threading.Condition()
        self._closed = False

    def add(self, letter):
        with self._cond:
            self._cond.wait_for(lambda: len(self._letters) < self._limit)
            self._letters.append(letter)
            self._cond.notify_all()

    def close(self):
        with self._cond:
            self._closed = True
            self._cond.notify_all()

    def remove(self):
        with self._cond:
            self._cond.wait_for(lambda: self._letters or self._closed)
            if not self._letters:
                return None
            letter = self._letters.pop(0)
            self._cond.notify_all()
            return letter


class Feeder(threading.Thread):
    def __init__(self, box, hosts, device):
        super().__init__(daemon=True)
        self.box = box
        self.hosts = hosts
        self.device = device

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            for n, host in enumerate(self.hosts):
                page = host.to(self.device, non_blocking=True)
                page = page.clamp_(-2, 2)
                self.box.add((n, page, stream.record_event()))
        self.box.close()


class Receiver:
    def __init__(self, box):
        self.box = box

    def __iter__(self):
        while True:
            letter = self.box.remove()
            if letter is None:
                return
            n, page, event = letter
            here = torch.cuda.current_stream()
            event.wait(here)
            page.record_stream(here)
            yield n, page


def main():
    device = torch.device("cuda", 0)
    hosts = [torch.randn(1 << 16).pin_memory() for _ in range(30)]
    box = Mailbox(4)
    feeder = Feeder(box, hosts, device)
    feeder.start()
    total = torch.zeros(1 << 16, device=device)
    for n, page in Receiver(box):
        total.add_(page, alpha=1.0 / (n + 1))
    feeder.join()
    print(total.norm().item())


if __name__ == "__main__":
    main()
