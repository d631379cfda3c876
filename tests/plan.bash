# What tools/test does of what it could: its plan, its options, and what passed in the run before. Sourced by
# it.

# The steps in order: seconds in the gate (-: not in it) | seconds with --full | name. On 2 cores, nothing
# else running, everything fetched.
plan="
1|1|packages
1|1|scripts parse
75|150|build: gcc, warnings are errors
150|150|packages build
265|300|the true path on booted hosts
645|1460|the lab itself
270|270|build: clang, sanitizers, fuzzers
12|20|what the packages hold
95|170|unit tests: gcc
250|200|units and corpora: sanitized
920|2100|programs driven from outside
390|270|network namespaces
-|810|programs: sanitized
-|255|fuzz: each parser for ten seconds
-|70|memory: valgrind
-|125|builds and runs on Debian 11
-|200|packages build on Debian 11
-|135|what the release holds
-|16|lintian
-|560|installs and runs on each Debian
-|310|a host with a stock kernel
-|90|two hosts of one image
-|60|BPF on other kernels
-|240|a run on a kernel of its own
-|270|power cuts
"
full=no resume=no action=run only=()

usage() {
        cat <<'END'
Usage: tools/test [--full] [--only STEP]... [--resume]
       tools/test [--full] --plan

  --full       also what takes two hours: every case of each test, the previous release, other systems, power cuts
  --plan       prints the steps and about how long each takes, and ends
  --only STEP  only the steps whose name holds these words; what they need must have been built before
  --resume     passes over the steps that passed when this was last run; from the beginning once a file of the tree has changed
END
}

# The rows of the plan that this run has.
rows() {
        awk -F'|' -v full=$full 'NF == 3 && (full == "yes" || $1 != "-") {print (full == "yes" ? $2 : $1) "|" $3}' <<<"$plan"
}

# Whether a step was asked for.
wanted() {
        local words
        [ ${#only[@]} -gt 0 ] || return 0
        for words in "${only[@]}"; do
                [[ $1 != *"$words"* ]] || return 0
        done
        return 1
}

print_plan() {
        local seconds name sum=0
        while IFS='|' read -r seconds name; do
                wanted "$name" || continue
                printf '%5d s  %s\n' "$seconds" "$name"
                sum=$((sum + seconds))
        done < <(rows)
        printf '%5d s  in all, %d minutes; less where steps overlap\n' $sum $(((sum + 59) / 60))
}

options() {
        local words
        while [ $# -gt 0 ]; do
                case $1 in
                        --full) full=yes ;;
                        --plan) action=plan ;;
                        --resume) resume=yes ;;
                        --only) [ -n "${2-}" ] || { usage >&2; exit 64; }; only+=("$2"); shift ;;
                        -h|--help) usage; exit 0 ;;
                        *) usage >&2; exit 64 ;;
                esac
                shift
        done
        for words in ${only[@]+"${only[@]}"}; do
                rows | cut -d '|' -f 2 | grep -qF -- "$words" ||
                        { echo "tools/test: no step is called '$words': tools/test [--full] --plan names them" >&2; exit 64; }
        done
        [ $action = run ] || { print_plan; exit 0; }
}

# What the tree holds, as far as git knows it; nothing where git does not: then nothing can be resumed.
tree() {
        git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
        { git rev-parse HEAD; git diff HEAD; git ls-files -z --others --exclude-standard | xargs -0r sha256sum; } 2>/dev/null | sha256sum
}

# Makes the folder of logs, empty but for what is resumed; --only leaves the logs of the others. LOG/passed:
# the tree, then a line a step.
start_logs() {
        local now
        now=$(tree)
        [ $resume = yes ] && [ -n "$now" ] && [ "$(head -n 1 "$logs/passed" 2>/dev/null)" = "$now $full" ] || {
                [ ${#only[@]} -gt 0 ] || rm -rf "$logs"
                mkdir -p "$logs"
                echo "$now $full" >"$logs/passed"
        }
        [ $full = no ] || print_plan
}

# "|NAME|PASSED|SKIPPED" of a step that passed in the run that is resumed.
passed_before() {
        grep -F "|$1|" "$logs/passed"
}

to_run() {
        wanted "$1" && ! passed_before "$1" >/dev/null
}
