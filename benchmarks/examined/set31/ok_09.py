import torch
import torch.distributed as dist


def reduce_and_log(flat, side, host):
    work = dist.all_reduce(flat, async_op=True)
    work.wait()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        host.copy_(flat, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
    torch.cuda.current_stream().wait_event(done)
    return done


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    side = torch.cuda.Stream()
    flat = torch.ones(1 << 20, device="cuda")
    host = torch.empty(1 << 20, pin_memory=True)
    for _ in range(4):
        done = reduce_and_log(flat, side, host)
        flat.mul_(0.5)
        done.synchronize()
        print(host[0].item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
