#!/usr/bin/python3
"""This host's part of a training under torchrun: torchrun_start.py PROGRAM [ARGUMENT…]"""
import os
import sys

# Without --redirects and --tee the torchrun of torch 1.13 does not start on Python 3.11.
os.execv("/usr/bin/python3", [
    "python3", "-m", "torch.distributed.run", "--redirects", "1", "--tee", "1", "--log_dir", "/tmp/torchrun",
    "--nproc_per_node=1", f"--nnodes={len(os.environ['PEERS'].split(','))}",
    f"--node_rank={os.environ['TPU_RUN_RANK']}", f"--master_addr={os.environ['PEERS'].split(',')[0]}",
    "--master_port=29511", *sys.argv[1:]])
