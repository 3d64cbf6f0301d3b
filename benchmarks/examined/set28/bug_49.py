"""Event processing framework: conditions data is uploaded once and shared by all event streams."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import cuda


@cuda.jit
def calibrate(adc, channel, gain, pedestal, charge):
    i = cuda.grid(1)
    if i < adc.size:
        c = channel[i]
        charge[i] = gain[c] * (adc[i] - pedestal[c])


@cuda.jit
def sum_charge(charge, total):
    i = cuda.grid(1)
    if i < charge.size:
        cuda.atomic.add(total, 0, charge[i])


class ConditionsProduct:
    """Device copy of one interval of validity; the first user starts the upload."""

    def __init__(self, gain, pedestal):
        self.h_gain = cuda.pinned_array_like(gain)
        self.h_pedestal = cuda.pinned_array_like(pedestal)
        self.h_gain[:] = gain
        self.h_pedestal[:] = pedestal
        self.mutex = threading.Lock()
        self.event = cuda.event(timing=False)
        self.fill_stream = None
        self.gain = None
        self.pedestal = None

    def data_for_current_device(self, stream):
        with self.mutex:
            if self.fill_stream is None:
                self.gain = cuda.device_array_like(self.h_gain)
                self.pedestal = cuda.device_array_like(self.h_pedestal)
                self.gain.copy_to_device(self.h_gain, stream=stream)
                self.pedestal.copy_to_device(self.h_pedestal, stream=stream)
                self.fill_stream = stream
            elif self.fill_stream is not stream:
                self.event.wait(stream)
        return self.gain, self.pedestal


class EventStream:
    """Everything one framework stream needs to process events on its own."""

    def __init__(self, max_digis):
        self.stream = cuda.stream()
        self.h_adc = cuda.pinned_array(max_digis, np.float32)
        self.h_channel = cuda.pinned_array(max_digis, np.int32)
        self.h_total = cuda.pinned_array(1, np.float64)
        self.d_adc = cuda.device_array(max_digis, np.float32)
        self.d_channel = cuda.device_array(max_digis, np.int32)
        self.d_charge = cuda.device_array(max_digis, np.float32)
        self.d_total = cuda.device_array(1, np.float64)

    def process(self, event, conditions):
        adc, channel = event
        s = self.stream
        self.h_adc[:] = adc
        self.h_channel[:] = channel
        self.h_total[0] = 0.0
        self.d_adc.copy_to_device(self.h_adc, stream=s)
        self.d_channel.copy_to_device(self.h_channel, stream=s)
        self.d_total.copy_to_device(self.h_total, stream=s)
        gain, pedestal = conditions.data_for_current_device(s)
        grid = (adc.size + 255) // 256
        calibrate[grid, 256, s](self.d_adc, self.d_channel, gain, pedestal, self.d_charge)
        sum_charge[grid, 256, s](self.d_charge, self.d_total)
        self.d_total.copy_to_host(self.h_total, stream=s)
        s.synchronize()
        return float(self.h_total[0])


class Job:
    def __init__(self, streams=3, digis=1 << 18, channels=1 << 22):
        self.digis, self.channels = digis, channels
        self.rng = np.random.default_rng(7)
        self.streams = [EventStream(digis) for _ in range(streams)]
        self.pools = [ThreadPoolExecutor(max_workers=1) for _ in range(streams)]
        cuda.synchronize()

    def _event(self):
        adc = self.rng.integers(0, 4096, self.digis).astype(np.float32)
        return adc, self.rng.integers(0, self.channels, self.digis).astype(np.int32)

    def run_interval(self, events):
        gain = self.rng.normal(1.0, 0.1, self.channels).astype(np.float32)
        pedestal = self.rng.normal(200.0, 5.0, self.channels).astype(np.float32)
        conditions = ConditionsProduct(gain, pedestal)
        futures = []
        for k in range(events):
            lane = k % len(self.streams)
            futures.append(
                self.pools[lane].submit(self.streams[lane].process, self._event(), conditions)
            )
        return [future.result() for future in futures]


def main():
    job = Job()
    for _ in range(5):
        print(sum(job.run_interval(60)))


if __name__ == "__main__":
    main()
