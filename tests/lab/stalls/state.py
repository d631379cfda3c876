"""What is known of the cases so far, in a file of one JSON object a line: a matrix that was ended goes on
where it was."""

import json
import os


class State:
    def __init__(self, path, wish):
        """wish: what the matrix is asked for. A file of another training, seed or other causes is refused;
        how often may change: ×3 becomes ×10."""
        self.path, self.verdicts, self.truths = path, {}, {}
        kept = {key: wish[key] for key in ("training", "seed", "causes")}
        lines = self._read() if path and os.path.exists(path) else []
        if not lines:
            self._write(kept)
        elif lines[0] != kept:
            raise ValueError(f"{path}: of another matrix ({lines[0]}): give the same training, seed "
                             f"and causes, or another file")
        for line in lines[1:]:
            (self.truths if "truth" in line else self.verdicts)[line["case"]] = line

    def _read(self):
        """The whole lines; what was being written when we were killed is cut off."""
        with open(self.path, "r+b") as f:
            data = f.read()
            f.truncate(data.rfind(b"\n") + 1)
        return [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]

    def _write(self, line):
        if not self.path:
            return
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n")
            f.flush()
            os.fsync(f.fileno())

    def store_verdict(self, case, verdict):
        self.verdicts[case] = {"case": case, "verdict": verdict}
        self._write(self.verdicts[case])

    def store_truth(self, case, truth, figures):
        self.truths[case] = {"case": case, "truth": truth, "figures": figures}
        self._write(self.truths[case])

    def done(self, case):
        """Whether the case is complete: a verdict without what was true (we were killed between) is done
        anew."""
        return case in self.truths

    def records(self):
        return [{**self.verdicts[case], **truth} for case, truth in sorted(self.truths.items())]


def kept(path):
    """The records of a file, which stays as it is."""
    with open(path, encoding="utf-8") as f:
        wish = json.loads(f.readline())
    return State(path, wish).records()
