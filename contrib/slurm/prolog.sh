#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prolog=/etc/slurm/prolog.d/50-tpu-hostd.sh in slurm.conf: before a job slurmd runs it as root on each of the job's nodes.
# A node that fails is drained and the job is queued again. WARN and UNKNOWN do not stop a job, and a node where tpu-hostd
# is away neither: Slurm's jobs do not depend on it.
report=$(timeout 60 tpuctl check --json 2>/dev/null)
[ $? -eq 2 ] || exit 0

reason=$(printf '%s' "$report" | python3 -c '
import json, sys
found = [c for c in json.load(sys.stdin)["checks"] if c["verdict"] == "FAIL"]
why = lambda c: c["reason"] or "is {found}, wanted {wanted}".format(**c)
print("; ".join(" ".join(w for w in (c["check"], c["subject"], why(c)) if w) for c in found)[:200])')
scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN Reason="tpu-hostd: ${reason:-tpuctl check fails}"
exit 1
