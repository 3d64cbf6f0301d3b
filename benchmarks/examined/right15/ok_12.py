"""Swaps attention cache blocks between the device and pinned host memory."""
import torch


class BlockSwapper:
    def __init__(self, device_blocks, host_blocks, block_shape, device="cuda:0",
                 dtype=torch.float16):
        self.device = torch.device(device)
        self.cache = torch.empty((device_blocks, *block_shape), dtype=dtype,
                                 device=self.device)
        self.host = torch.empty((host_blocks, *block_shape), dtype=dtype,
                                pin_memory=True)
        self.stream = torch.cuda.Stream(self.device)
        self.cache.record_stream(self.stream)
        self._free_device = list(range(device_blocks))
        self._free_host = list(range(host_blocks))
        self._moved = {}

    def _move(self, pairs, outward):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for on_device, on_host in pairs:
                if outward:
                    self.host[on_host].copy_(self.cache[on_device], non_blocking=True)
                else:
                    self.cache[on_device].copy_(self.host[on_host], non_blocking=True)
            event = self.stream.record_event()
        for on_device, _ in pairs:
            self._moved[on_device] = event

    def allocate(self):
        return self._free_device.pop()

    def release(self, block):
        self._free_device.append(block)

    def swap_out(self, blocks):
        if len(blocks) > len(self._free_host):
            raise MemoryError("host pool is full")
        homes = [self._free_host.pop() for _ in blocks]
        self._move(list(zip(blocks, homes)), outward=True)
        self._free_device.extend(blocks)
        return homes

    def swap_in(self, homes):
        if len(homes) > len(self._free_device):
            raise MemoryError("device pool is full")
        blocks = [self._free_device.pop() for _ in homes]
        self._move(list(zip(blocks, homes)), outward=False)
        self._free_host.extend(homes)
        return blocks

    def view(self, block):
        event = self._moved.get(block)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        return self.cache[block]


def main():
    swapper = BlockSwapper(4, 16, (2, 16, 8, 64))
    parked = []
    for step in range(6):
        block = swapper.allocate()
        swapper.view(block).fill_(step)
        parked.extend(swapper.swap_out([block]))
    for step, home in enumerate(parked):
        block, = swapper.swap_in([home])
        print(step, swapper.view(block).float().mean().item())
        swapper.release(block)


if __name__ == "__main__":
    main()
