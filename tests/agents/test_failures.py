"""What a model is told of an error: a code, a message and a next step, and nothing of the host."""

import json

import pytest

from skillsearch import errors
from skillsearch.agents import failures
from skillsearch.agents.failures import failure_of
from skillsearch.errors import ParseError, SkillError, SkillNotFoundError, UnsafePathError

HOST = "/srv/secret dir"
ERRORS = [
    (SkillNotFoundError("zzz"), "skill-not-found", {}),
    (SkillNotFoundError("pfd", ("pdf",)), "skill-not-found", {"nearest": ["pdf"]}),
    (
        errors.VersionNotFoundError("pdf@9", ("1", "2")),
        "version-not-found",
        {"versions": ["1", "2"]},
    ),
    (errors.VersionConstraintError("><"), "version-invalid", {}),
    (
        errors.AmbiguousNameError("pdf", ("a:pdf", "b:pdf")),
        "ambiguous-name",
        {"candidates": ["a:pdf", "b:pdf"]},
    ),
    (UnsafePathError("The path '/etc/passwd' is absolute."), "unsafe-path", {}),
    (ParseError("no", code="yaml-invalid", line=3), "parse-error", {"line": 3}),
    (ParseError("no", code="yaml-invalid"), "parse-error", {}),
    (SkillError("The skill has no file 'x'."), "skill-error", {}),
    (errors.QueryError("n is 0"), "query-invalid", {}),
    (errors.IndexNotFoundError(HOST), "no-index", {}),
    (errors.StorageError(HOST), "storage", {}),
    (errors.LockTimeoutError(HOST), "storage", {}),
    (errors.CacheError(HOST), "storage", {}),
    (errors.EmbedderError(HOST), "embedder", {}),
    (errors.RootError(HOST), "root", {}),
    (errors.ConfigError(HOST), "config", {}),
    (errors.MissingDependencyError("torch", "st", "x"), "missing-dependency", {}),
    (errors.SkillNotLoadedError("pdf"), "skill-not-loaded", {}),
    (errors.CommandRefusedError("The command 'rm' is denied."), "command-refused", {}),
    (errors.WorkspaceError("The input 'a' is larger than 1 byte."), "workspace", {}),
    (errors.ArtifactNotFoundError("No artifact is named 'a'."), "artifact-not-found", {}),
    (errors.IsolationError(HOST), "not-isolated", {}),
    (errors.ExecutorError(HOST), "executor", {}),
    (errors.ExecutionError("The command has more than 3 characters."), "execution", {}),
    (errors.SkillSearchError("anything"), "failed", {}),
]


@pytest.mark.parametrize(("raised", "code", "details"), ERRORS, ids=lambda value: str(value)[:20])
def test_each_of_our_errors_has_its_code_and_what_it_knows(raised, code, details, caplog):
    error = failure_of(raised)["error"]
    assert error["code"] == code
    assert error["next_step"]
    assert {key: error[key] for key in error.keys() - {"code", "message", "next_step"}} == details
    assert "\n" not in error["message"]
    is_of_the_host = HOST in str(raised)  # which the log is told, and no model
    assert (HOST in caplog.text) == is_of_the_host
    assert "secret" not in json.dumps(error)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "'/home/me/my skills/pdf/SKILL.md' cannot be read (no).",
            "'SKILL.md' cannot be read (no).",
        ),
        ('"/home/o\'neill/pdf" cannot be read.', '"pdf" cannot be read.'),
        ("The skill has no file 'a/b.md'.", "The skill has no file 'a/b.md'."),
        ("The workspace /srv/w/ws_1 (in /srv/w) is full.", "The workspace ws_1 (in w) is full."),
        (
            "No input host:///srv/a/b or work/a/b, 1/2.",
            "No input host:///srv/a/b or work/a/b, 1/2.",
        ),
    ],
)
def test_paths_of_skills_lose_their_folders(message, shown):
    assert failure_of(SkillError(message))["error"]["message"] == shown
    assert failure_of(ParseError(message, code="x"))["error"]["message"] == shown


def test_what_a_model_is_told_is_written_for_classes_that_exist():
    forms = failures._forms()
    assert forms["SkillSearchError"]["code"] == "failed"
    assert forms["IndexingError"]["code"] == failures.INDEXING  # by which a server knows it
    for name, form in forms.items():
        assert issubclass(getattr(errors, name), errors.SkillSearchError), name
        assert {"code", "next_step"} <= form.keys() <= {"code", "next_step", "message"}, name
        assert all(form.values()), name


def test_a_path_that_was_asked_for_is_told_as_it_was():
    error = failure_of(UnsafePathError("The path '/etc/passwd' is absolute."))["error"]
    assert error["message"] == "The path '/etc/passwd' is absolute."


def test_what_a_skill_is_called_cannot_play_tricks_in_an_error():
    name = "pdf\x1b[2J\u202e\U000e0041\n<system>"
    error = failure_of(SkillNotFoundError("x", (name,)))["error"]
    assert error["nearest"] == ["pdf[2J <system>"]
    assert "\u202e" not in error["message"]
