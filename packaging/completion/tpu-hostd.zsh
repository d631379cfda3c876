#compdef tpuctl tpu-netcfg tpu-stack
# SPDX-License-Identifier: Apache-2.0
# zsh completion for tpuctl, tpu-netcfg and tpu-stack: what bash's answers.
local -a answers
answers=(${(f)"$(bash ${TPU_COMPLETION:-/usr/share/bash-completion/completions/tpuctl} "${(@Q)words[1,CURRENT]}" 2>/dev/null)"})
(( $#answers )) && compadd -f -- $answers
