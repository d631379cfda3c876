# SPDX-License-Identifier: Apache-2.0
# fish completion for tpuctl, tpu-netcfg and tpu-stack: what bash's answers.
function __tpu_answers
    set -l file /usr/share/bash-completion/completions/tpuctl
    set -q TPU_COMPLETION; and set file $TPU_COMPLETION
    bash $file (commandline --tokenize --cut-at-cursor --current-process) (commandline --current-token --cut-at-cursor) 2>/dev/null
end
complete --command tpuctl --command tpu-netcfg --command tpu-stack --no-files --arguments '(__tpu_answers)'
