"""What Schemathesis is told that OpenAPI 3.1 cannot say."""

import json

import schemathesis

LINES = "application/x-ndjson"


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """An answer in lines is described by the schema of one line; all of them are looked at."""
    for path in raw_schema["paths"].values():
        for operation in path.values():
            content = operation["responses"]["200"].get("content", {})
            if LINES in content:
                line = content[LINES]["schema"]
                content[LINES]["schema"] = {"type": "array", "items": line}


@schemathesis.deserializer(LINES)
def read_lines(context, response):
    return [json.loads(line) for line in response.text.split("\n") if line]


@schemathesis.hook
def map_headers(context, headers):
    """Both names of the Idempotency-Key at once are refused unless they agree; one is enough to get further."""
    if headers and "Idempotency-Key" in headers:
        headers.pop("X-Idempotency-Key", None)
    return headers
