# SPDX-License-Identifier: Apache-2.0
# bash completion for tpuctl, tpu-netcfg and tpu-stack. Verbs, options, checks and runs are what the program
# itself answers, so that nothing here can be out of date; an answer that takes longer than 2 s is none.
# Needs nothing but bash. The completions of zsh and fish ask this file.

# The functions below share the caller's: program (as typed), root (--root DIR as typed, or empty).
__tpu_ask() {
        timeout 2 "$program" "${root[@]}" "$@" </dev/null 2>&1
}

__tpu_options() { # VERB or nothing
        __tpu_ask "$@" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
}

__tpu_verbs() {
        __tpu_ask --help | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p'
}

# A check that there is not makes it list those that there are.
__tpu_checks() {
        __tpu_ask check '?' | sed -n 's/^  \([a-z_]\{1,\}\) .*/\1/p'
}

# All checks of one group, by a look at this host: only when someone has typed its dot.
__tpu_checks_of() { # GROUP
        [[ $1 == path ]] || __tpu_ask check "$1" --json | grep -o '"check": *"[^"]*"' | cut -d '"' -f 4 | sort -u
}

__tpu_runs() {
        timeout 2 "$program" "${root[@]}" runs 2>/dev/null </dev/null | sed -n '2,$s/^\([a-z0-9-]\{1,\}\) .*/\1/p'
}

__tpu_pythons() {
        local dir comm
        for dir in /proc/[0-9]*; do
                { read -r comm <"$dir/comm"; } 2>/dev/null && [[ $comm == python* ]] && echo "${dir#/proc/}"
        done
}

__tpu_files() { # -f or -d
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

# The options of a verb that take a value.
__tpu_with_value() { # VERB or nothing
        __tpu_ask "$@" --help | sed -n 's/^  \(--[a-z-]*\) [A-Z].*/\1/p'
}

# The words that the help of option $1 lists behind "one of: ".
__tpu_listed() { # VERB or nothing
        __tpu_ask $verb --help | sed -n "s/^  $1 [A-Z].* one of: \([^;]*\).*/\1/p" | tr -d ,
}

# The value of option $1. 1: it takes none.
__tpu_value() {
        case $1 in
        --root | --directory | --cgroup) __tpu_files -d ;;
        --config | --netns | --file) __tpu_files -f ;;
        --from)
                __tpu_files -f
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "collector agents" -- "$cur")
                ;;
        --run) words="stalled running" ;;
        --user) mapfile -t COMPREPLY < <(compgen -u -- "$cur") ;;
        --probe) words=$(__tpu_checks) ;;
        --*)
                [[ " $(__tpu_with_value $verb | tr '\n' ' ')" == *" $1 "* ]] || return 1
                words=$(__tpu_listed "$1")
                ;;
        *) return 1 ;;
        esac
}

# Sets verb, root and command (where the word behind '--' stands) from the words before the one that is
# completed.
__tpu_scan() {
        local i asked="" takes=" --root --config "
        for ((i = 1; i < cword; i++)); do
                case ${line[i]} in
                --root) root=(--root "${line[i + 1]}"); i=$((i + 1)) ;;
                --) command=$((i + 1)); return ;;
                -*)
                        if [[ -z $asked && ($verb || ${program##*/} != tpuctl) ]]; then
                                takes+="$(__tpu_with_value $verb | tr '\n' ' ') " asked=1
                        fi
                        [[ $takes == *" ${line[i]} "* ]] && i=$((i + 1))
                        ;;
                *) [[ $verb ]] || verb=${line[i]} ;;
                esac
        done
}

__tpuctl_words() {
        case $verb in
        "") __tpu_verbs ;;
        check) if [[ $cur == *.* ]]; then __tpu_checks_of "${cur%%.*}"; else __tpu_checks; fi ;;
        silence | unsilence) if [[ $cur == *.* ]]; then __tpu_checks_of "${cur%%.*}"; else __tpu_checks; fi ;;
        mode) echo "observe repair" ;;
        fleet) echo "slices stalls suspects pairs cordon drain uncordon observe repair release" ;;
        logs | stack | stop | why) __tpu_runs ;;
        esac
}

_tpu_hostd() {
        # bash splits --option=value at '=': put it together again.
        local -a line=() root=()
        local word program cur verb="" command=0 words="" cword
        for word in "${COMP_WORDS[@]:0:COMP_CWORD + 1}"; do
                [[ $word == = && ${line[-1]-} == --* ]] || line+=("$word")
        done
        [[ ${COMP_WORDS[COMP_CWORD]} != = ]] || line+=("")
        cword=$((${#line[@]} - 1)) program=${line[0]} cur=${line[-1]} COMPREPLY=()
        __tpu_scan
        if ((command)); then
                if ((cword == command)); then mapfile -t COMPREPLY < <(compgen -c -- "$cur"); else __tpu_files -f; fi
                return
        fi
        if ! __tpu_value "${line[cword - 1]}"; then
                case ${program##*/},$cur in
                tpuctl,-*) words=$(__tpu_options $verb) ;;
                *,-*) words=$(__tpu_options) ;;
                tpuctl,*) if [[ $verb == diagnose ]]; then __tpu_files -f; else words=$(__tpuctl_words); fi ;;
                tpu-stack,*) words=$(__tpu_pythons) ;;
                esac
        fi
        [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

# Run with the words of a command line, it prints the answers to the last of them, one a line: for zsh and
# fish, whose own files ask here.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
        __tpu_last=${!#} __tpu_option="" # --option= in front of the last word, which bash itself would split
        if [[ $__tpu_last == --*=* ]]; then
                __tpu_option=${__tpu_last%%=*}=
                set -- "${@:1:$#-1}" "${__tpu_option%=}" "${__tpu_last#*=}"
        fi
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _tpu_hostd
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]/#/$__tpu_option}"
else
        complete -F _tpu_hostd tpuctl tpu-netcfg tpu-stack
fi
