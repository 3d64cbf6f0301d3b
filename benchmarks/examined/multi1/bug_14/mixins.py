import torch


class SnapshotMixin:
    def init_snapshots(self):
        self._snap_stream = torch.cuda.Stream()
        self._snap_event = torch.cuda.Event()
        self._snap_host = {
            name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for name, p in self.net.named_parameters()
        }

    @torch.no_grad()
    def snapshot_begin(self):
        self._snap_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._snap_stream):
            for name, p in self.net.named_parameters():
                self._snap_host[name].copy_(p, non_blocking=True)
            self._snap_event.record()

    def snapshot_fence(self):
        torch.cuda.current_stream().wait_event(self._snap_event)

    def snapshot_save(self, path):
        self._snap_event.synchronize()
        torch.save(self._snap_host, path)
