"""The rules that ARD (draft 0.91) and Agent Skills Discovery (0.2) publish, in our own words.

Closed where the drafts close them, and where they leave open what we do not write.
"""

from jsonschema import Draft202012Validator

DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
URL = {"type": "string", "pattern": "^https?://[!-~]+$"}
TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
IDENTIFIER = {"type": "string", "pattern": r"^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$"}
TERMS = {
    "identifier": IDENTIFIER,
    "displayName": TEXT,
    "type": {"type": "string", "pattern": r"^[a-z]+/[a-z0-9.+-]+(; [a-z]+=\"[^\"]+\")?$"},
    "url": URL,
    "data": {"type": "object"},
    "description": TEXT,
    "tags": TEXTS,
    "capabilities": TEXTS,
    "representativeQueries": {**TEXTS, "minItems": 2, "maxItems": 5},
    "version": TEXT,
    "updatedAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
    "metadata": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    "trustManifest": {"type": "object", "required": ["identity"]},
}
FOUND = {"score": {"type": "integer", "minimum": 0, "maximum": 100}, "source": URL}
EITHER = [{"required": ["url"]}, {"required": ["data"]}]


def closed(properties, *required, **rules):
    """Return the schema of an object that has these keys alone."""
    made = {"type": "object", "properties": properties, "required": list(required)}
    return made | {"additionalProperties": False} | rules


ENTRY = closed(TERMS, "identifier", "displayName", "type", oneOf=EITHER)
RESULT = closed(TERMS | FOUND, "identifier", "score", "source")
REFERRAL = closed(
    {key: TERMS[key] for key in ("identifier", "displayName", "type", "url")},
    *("identifier", "displayName", "type", "url"),
)
HOST = closed({"displayName": TEXT, "identifier": TEXT}, "displayName")
SKILL = closed(
    {
        "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64},
        "type": {"enum": ["skill-md", "archive"]},
        "description": {**TEXT, "maxLength": 1024},
        "url": URL,
        "digest": DIGEST,
    },
    *("name", "type", "description", "url", "digest"),
)
SCHEMAS = {
    "entry": ENTRY,
    "catalog": closed(
        {
            "specVersion": {"const": "1.0"},
            "host": HOST,
            "entries": {"type": "array", "items": ENTRY},
        },
        *("specVersion", "entries"),
    ),
    "search": closed(
        {
            "results": {"type": "array", "items": RESULT},
            "referrals": {"type": "array", "items": REFERRAL},
            "pageToken": TEXT,
        },
        "results",
    ),
    "list": closed(
        {
            "items": {"type": "array", "items": ENTRY},
            "total": {"type": "integer"},
            "pageToken": TEXT,
        },
        "items",
    ),
    "error": closed(
        {"errorCode": {"type": "string", "pattern": "^[A-Z_]+$"}, "message": TEXT},
        *("errorCode", "message"),
    ),
    "index": closed(
        {
            "$schema": {"const": "https://schemas.agentskills.io/discovery/0.2.0/schema.json"},
            "skills": {"type": "array", "items": SKILL},
        },
        *("$schema", "skills"),
    ),
}


def conforms(kind, record):
    """Return a record after a check by the rules of its kind; it fails the test that it breaks."""
    Draft202012Validator(SCHEMAS[kind]).validate(record)
    return record
