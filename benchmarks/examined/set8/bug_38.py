import queue
import threading

import torch


class LayerLoadingEvent:

    def __init__(self, num_layers, device):
        self.device = device
        self.load_events = [torch.cuda.Event() for _ in range(num_layers)]

    def complete(self, layer_index, stream):
        self.load_events[layer_index].record(stream)

    def wait(self, layer_index):
        torch.cuda.current_stream(self.device).wait_event(self.load_events[layer_index])


class HiCacheController:
    """Loads KV of cached prefixes from pinned host memory, layer by layer."""

    def __init__(self, device_kv, host_kv, device):
        self.device_kv = device_kv
        self.host_kv = host_kv
        self.device = device
        self.num_layers = len(device_kv)
        self.load_stream = torch.cuda.Stream(device)
        self.load_queue = queue.Queue()
        self.layer_done = LayerLoadingEvent(self.num_layers, device)
        self.load_thread = threading.Thread(target=self.load_thread_func_layer_by_layer, daemon=True)
        self.load_thread.start()

    def load(self, host_indices, device_indices):
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream(self.device))
        self.load_queue.put((host_indices, device_indices, ready))

    def load_thread_func_layer_by_layer(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.load_stream):
            while True:
                host_indices, device_indices, ready = self.load_queue.get()
                self.load_stream.wait_event(ready)
                for i in range(self.num_layers):
                    src = self.host_kv[i][host_indices].pin_memory()
                    kv = src.to(self.device, non_blocking=True)
                    self.device_kv[i].index_copy_(0, device_indices, kv)
                    self.layer_done.complete(i, self.load_stream)


class ModelRunner:

    def __init__(self, layers, controller):
        self.layers = layers
        self.controller = controller

    @torch.inference_mode()
    def forward_extend(self, hidden, host_indices, device_indices, out_loc):
        self.controller.load(host_indices, device_indices)
        for i, layer in enumerate(self.layers):
            self.controller.layer_done.wait(i)
            hidden = layer(hidden, self.controller.device_kv[i], device_indices, out_loc)
        torch.cuda.current_stream().synchronize()
        self.controller.load_stream.synchronize()
        return hidden
