"""What a diagnosis says, as the matrix and the recordings compare it with the truth."""


def first(said):
    """Of tpuctl diagnose --json: {"outcome", "host", "kind", "sentence", "details"}; host and kind are None
    where nobody is named."""
    suspects = said.get("suspects") or []
    named = suspects[0] if said.get("outcome") == "named" and suspects else {}
    return {"outcome": said.get("outcome"), "host": named.get("host"), "kind": named.get("kind"),
            "sentence": said.get("summary"), "details": named.get("details")}


def word(truth, verdict):
    """right, wrong or nobody."""
    if not verdict["host"]:
        return "nobody"
    return "right" if verdict["host"] in truth["hosts"] else "wrong"


def kind_right(truth, verdict):
    return verdict.get("kind") in truth["kinds"]
