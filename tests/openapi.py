"""An OpenAPI 3.0 file held against the answers of a running program, both ways: what comes is in the
file, what is in the file comes."""

import json
import re

import jsonschema
import yaml

METHODS = ("get", "head", "post", "put", "delete", "patch", "options")


class OpenApi:
    def __init__(self, path):
        self.document = yaml.safe_load(path.read_text())
        assert self.document["openapi"].startswith("3.0."), "OpenAPI 3.0 has nullable"
        self.seen_answers, self.seen_fields = set(), set()
        self.schemas = self.document["components"]["schemas"]
        self.operations = {(m.upper(), p): {int(s): self.resolve(r) for s, r in o[m]["responses"].items()}
                           for p, o in self.document["paths"].items() for m in METHODS if m in o}
        self.parameters = {(m.upper(), p): o[m].get("parameters", []) + o.get("parameters", [])
                           for p, o in self.document["paths"].items() for m in METHODS if m in o}
        ids = [o[m]["operationId"] for o in self.document["paths"].values() for m in METHODS if m in o]
        assert len(ids) == len(set(ids)), "operationId is unique"
        for name, schema in self.schemas.items():
            self._strict(schema, name)
        self.validators = {}

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def _strict(self, schema, where):
        """An object says all its fields and that there are no others; all are there unless the file says
        why not."""
        if "$ref" in schema:
            self.resolve(schema)
        elif schema.get("type") == "object" and "properties" in schema:
            assert schema.get("additionalProperties") is False, where
            may_miss = {k for k, v in schema["properties"].items() if v.get("x-optional")}
            assert set(schema["required"]) == set(schema["properties"]) - may_miss, where
            for k, v in schema["properties"].items():
                self._strict(v, f"{where}.{k}")
        elif schema.get("type") == "object":
            self._strict(schema["additionalProperties"],
                         where + ".*") if schema["additionalProperties"] is not True else None
        for part in schema.get("allOf", []) + schema.get("oneOf", []) + ([schema["items"]]
                                                                         if "items" in schema else []):
            self._strict(part, where)

    def _plain(self, schema):
        """OpenAPI 3.0's dialect as JSON Schema."""
        if "$ref" in schema:
            return {"$ref": schema["$ref"].replace("#/components/schemas/", "#/definitions/")}
        out = {}
        for key, value in schema.items():
            if key == "properties":
                out[key] = {k: self._plain(v) for k, v in value.items()}
            elif key in ("items", "additionalProperties") and isinstance(value, dict):
                out[key] = self._plain(value)
            elif key in ("allOf", "oneOf"):
                out[key] = [self._plain(v) for v in value]
            elif key in ("type", "enum", "required", "minimum", "maximum", "pattern", "format",
                         "additionalProperties"):
                out[key] = value
        return {"anyOf": [{"type": "null"}, out]} if schema.get("nullable") and out else out

    def _validate(self, value, schema):
        key = json.dumps(schema, sort_keys=True)
        if key not in self.validators:
            whole = {**self._plain(schema),
                     "definitions": {n: self._plain(s) for n,
                                     s in self.schemas.items()}} if "$ref" not in schema else \
                {"allOf": [self._plain(schema)],
                 "definitions": {n: self._plain(s) for n, s in self.schemas.items()}}
            formats = jsonschema.FormatChecker(formats=())
            formats.checks("date-time")(is_time)
            self.validators[key] = jsonschema.Draft7Validator(whole, format_checker=formats)
        errors = sorted(self.validators[key].iter_errors(value), key=lambda e: list(map(str, e.path)))
        assert not errors, "\n".join(f"{'/'.join(map(str, e.path))}: {e.message}" for e in errors[:5])

    def _mark(self, value, schema, name):
        """Notes each field that is there and not null."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            schema = self.resolve(schema)
        if value is None:
            return
        for part in schema.get("allOf", []):
            self._mark(value, part, name)
        if isinstance(value, list):
            for v in value:
                self._mark(v, schema["items"], name)
        elif isinstance(value, dict):
            for k, v in value.items():
                if k in schema.get("properties", {}):
                    if v is not None:
                        self.seen_fields.add((name, k))
                    self._mark(v, schema["properties"][k], f"{name}.{k}")

    def check(self, value, schema):
        """A value that is to be as components/schemas says; name of the schema."""
        self._validate(value, {"$ref": f"#/components/schemas/{schema}"})
        self._mark(value, {"$ref": f"#/components/schemas/{schema}"}, schema)

    def path_of(self, url):
        """As it stands in the file; url may have arguments."""
        url = url.partition("?")[0]
        return next(p for _,
                    p in self.operations if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(p)), url))

    def take(self, method, path, status, content_type, body):
        """One answer; path as it stands in the file. Returns the JSON, or the bytes of what is none."""
        answers = self.operations[method, path]
        assert status in answers, f"{method} {path} answers {status}, which is not in the file: {body[:300]}"
        content = answers[status].get("content", {})
        if not content and not body:  # 204
            self.seen_answers.add((method, path, status))
            return None
        assert content_type in content, \
                f"{method} {path} {status}: {content_type} is not in the file: {sorted(content)}"
        if content_type != "application/json":
            self.seen_answers.add((method, path, status))
            return body
        value = json.loads(body)
        self._validate(value, content[content_type]["schema"])
        self._mark(value, content[content_type]["schema"], f"{method} {path} {status}")
        self.seen_answers.add((method, path, status))
        return value

    def never_came(self):
        """What the file has and no answer had, but for what it says a reason of."""
        answers = {(m, p, s) for (m, p), all_of in self.operations.items() for s,
                   a in all_of.items() if not a.get("x-not-driven")}
        fields = set()

        def collect(schema, name):
            if "$ref" in schema or schema.get("x-seen-by"):
                return
            for k, v in schema.get("properties", {}).items():
                if not v.get("x-not-driven"):
                    fields.add((name, k))
                collect(v, f"{name}.{k}")
            for part in schema.get("allOf", []) + ([schema["items"]] if "items" in schema else []):
                collect(part, name)

        for name, schema in self.schemas.items():
            collect(schema, name)
        for (m, p), all_of in self.operations.items():
            for s, a in all_of.items():
                for c in a.get("content", {}).values():
                    collect(c["schema"], f"{m} {p} {s}")
        return sorted(answers - self.seen_answers) + sorted(fields - self.seen_fields)


def is_time(text):
    """RFC 3339 UTC."""
    return not isinstance(text, str) or bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text))
