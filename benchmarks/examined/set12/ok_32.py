import torch
import zmq
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor


class KVProducer:
    def __init__(self, model, num_blocks, block_shape, address, device="cuda:0"):
        self.model = model
        self.device = torch.device(device)
        torch.cuda.set_device(self.device)
        self.kv = torch.zeros((num_blocks, *block_shape), dtype=torch.bfloat16, device=device)
        self.free = list(range(num_blocks))
        self.socket = zmq.Context.instance().socket(zmq.PAIR)
        self.socket.bind(address)
        _, args = reduce_tensor(self.kv)
        torch.cuda.default_stream(self.device).synchronize()
        self.socket.send_pyobj(args)

    @torch.no_grad()
    def prefill(self, request_id, tokens):
        blocks = self.model.allocate(self.free, len(tokens))
        hidden = self.model.embed(torch.tensor(tokens, device=self.device))
        for layer in self.model.layers:
            hidden, keys, values = layer(hidden)
            self.kv[blocks, layer.index, 0] = keys.view(len(blocks), *self.kv.shape[3:])
            self.kv[blocks, layer.index, 1] = values.view(len(blocks), *self.kv.shape[3:])
        torch.cuda.default_stream(self.device).synchronize()
        self.socket.send_pyobj({"request_id": request_id, "blocks": blocks})
        return blocks

    def collect(self, blocks_by_request):
        while self.socket.poll(0):
            done = self.socket.recv_pyobj()
            self.free.extend(blocks_by_request.pop(done["request_id"]))


class KVReader:
    def __init__(self, address, local_kv):
        self.local_kv = local_kv
        self.socket = zmq.Context.instance().socket(zmq.PAIR)
        self.socket.connect(address)
        self.remote = rebuild_cuda_tensor(*self.socket.recv_pyobj())
        self.stream = torch.cuda.Stream(local_kv.device)

    def retrieve(self, local_blocks):
        info = self.socket.recv_pyobj()
        self.stream.wait_stream(torch.cuda.current_stream(self.local_kv.device))
        with torch.cuda.stream(self.stream):
            index = torch.tensor(local_blocks, device=self.local_kv.device)
            self.local_kv.index_copy_(0, index, self.remote[info["blocks"]].to(index.device))
        self.stream.synchronize()
        self.socket.send_pyobj({"request_id": info["request_id"]})
        return info["request_id"]
