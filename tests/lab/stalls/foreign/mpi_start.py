#!/usr/bin/python3
"""Starts an MPI program on hosts without ssh: on the first host mpirun, on each other one what mpirun asks
for. In place of ssh, mpirun calls this file, too: mpi_start.py HOST COMMAND…
"""
import os
import socket
import sys
import time

PORT = 7500
HOSTS = os.environ.get("PEERS", "").split(",")
OPTIONS = """--mca plm_rsh_no_tree_spawn 1 --mca orte_leave_session_attached 1 --mca oob_tcp_if_include eth0
             --mca btl_tcp_if_include eth0,eth1 --mca btl tcp,self --mca mpi_warn_on_fork 0""".split()


def reach_host(host, words):
    """As ssh would: the command goes to the host, and this process lives as long as it."""
    while True:
        try:
            link = socket.create_connection((host, PORT))
            break
        except OSError:
            time.sleep(0.2)
    link.sendall(" ".join(words).encode() + b"\n")
    link.recv(1)


def begin():
    if int(os.environ["TPU_RUN_RANK"]) == 0:
        os.execvp("mpirun", ["mpirun", "-H", ",".join(HOSTS), "-n", str(len(HOSTS)), "--mca",
                             "plm_rsh_agent", os.path.abspath(__file__), *OPTIONS,
                             "/usr/bin/python3", *sys.argv[1:]])
    link, _ = socket.create_server(("", PORT), reuse_port=True).accept()
    line = link.makefile().readline()
    os.set_inheritable(link.fileno(), True)
    os.execv("/bin/sh", ["sh", "-c", line])


if __name__ == "__main__":
    if sys.argv[1].endswith(".py"):
        begin()
    else:
        reach_host(sys.argv[1], sys.argv[2:])
