import torch


class DevicePrefetcher:
    def __init__(self, source, device):
        self.source = source
        self.device = torch.device(device)
        self._copy = torch.cuda.Stream(device=self.device)
        self._it = None
        self._ahead = None

    def __len__(self):
        return len(self.source)

    def __iter__(self):
        self._it = iter(self.source)
        self._fetch()
        return self

    def _fetch(self):
        try:
            host = next(self._it)
        except StopIteration:
            self._ahead = None
            return
        with torch.cuda.stream(self._copy):
            self._ahead = {
                k: v.pin_memory().to(self.device, non_blocking=True)
                for k, v in host.items()
            }

    def _take(self):
        consumer = torch.cuda.current_stream(self.device)
        consumer.wait_stream(self._copy)
        for t in self._ahead.values():
            t.record_stream(consumer)
        return self._ahead

    def __next__(self):
        if self._ahead is None:
            raise StopIteration
        batch = self._take()
        self._fetch()
        return batch
