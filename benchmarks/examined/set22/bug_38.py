"""Message payloads whose buffers move from the sender's stream to the consumer's stream."""
import cupy as cp


class Buffer:
    def __init__(self, n, stream):
        self.stream = stream
        with stream:
            self.data = cp.zeros(n, cp.float32)

    def set_stream(self, new_stream):
        self.stream = new_stream

    def write_access(self, fn):
        with self.stream:
            fn(self.data)
        return self.stream.record()

    def copy_to_host(self):
        return self.data.get(stream=self.stream)


class Message:
    def __init__(self, seq, buf):
        self.seq = seq
        self.buf = buf


class Channel:
    def __init__(self):
        self.items = []

    def send(self, msg):
        self.items.append(msg)

    def recv(self):
        return self.items.pop(0)


class Producer:
    def __init__(self, stream, channel, n):
        self.stream, self.channel, self.n = stream, channel, n

    def run(self, seq):
        buf = Buffer(self.n, self.stream)

        def pack(data):
            data += cp.arange(self.n, dtype=cp.float32)
            cp.cumsum(data, out=data)
            data *= 1.0 / (seq + 1)

        buf.write_access(pack)
        self.channel.send(Message(seq, buf))


class Consumer:
    def __init__(self, stream, channel):
        self.stream, self.channel = stream, channel

    def run(self):
        msg = self.channel.recv()
        msg.buf.set_stream(self.stream)

        def unpack(data):
            cp.sqrt(data, out=data)

        msg.buf.write_access(unpack)
        return msg.seq, msg.buf.copy_to_host()


def main():
    channel = Channel()
    producer = Producer(cp.cuda.Stream(non_blocking=True), channel, 1 << 22)
    consumer = Consumer(cp.cuda.Stream(non_blocking=True), channel)
    for seq in range(16):
        producer.run(seq)
        got, host = consumer.run()
        print(got, host[-1])


if __name__ == "__main__":
    main()
