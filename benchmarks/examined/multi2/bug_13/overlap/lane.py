"""A stream of its own for gradient traffic."""
import torch
import torch.distributed as dist


class CommLane:
    def __init__(self, device: torch.device, world_size: int):
        self.device = device
        self.world_size = world_size
        self.stream = torch.cuda.Stream(device=device)
        self.sent = 0

    def submit(self, bucket) -> None:
        with torch.cuda.stream(self.stream):
            flat = bucket.gather()
            dist.all_reduce(flat)
            flat.div_(self.world_size)
            bucket.scatter()
        self.sent += 1

    def join(self) -> int:
        """Everything issued so far becomes visible to the caller's stream."""
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        sent, self.sent = self.sent, 0
        return sent

    def describe(self, buckets) -> str:
        sizes = [b.flat.numel() * b.flat.element_size() for b in buckets]
        total = sum(sizes) / 2 ** 20
        return (f"{len(buckets)} buckets, {total:.1f} MiB in all, "
                f"largest {max(sizes) / 2 ** 20:.1f} MiB, world of {self.world_size}")

    def __repr__(self):
        return f"CommLane(device={self.device}, world_size={self.world_size})"
