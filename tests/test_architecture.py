"""The layers of the package, checked from its own source."""

import ast
import runpy
import sys
from functools import cache
from pathlib import Path

import pytest

source_trees = runpy.run_path(str(Path(__file__).with_name("source_trees.py")))
PACKAGE, PATHS, EXAMPLES = map(source_trees.get, ("PACKAGE", "PATHS", "EXAMPLES"))
tree_of, nodes_of, offenders = map(source_trees.get, ("tree_of", "nodes_of", "offenders"))

FLOORS = (  # low to high: a module imports from its own floor, unless APART, and from lower ones
    {
        "_version",
        "errors",
        "fast_start",
        "hosts.scan",
        "settings.environ",
        "system_errors",
        "types",
    },
    {"text"},
    {
        "files",
        "hosts.library_moves",
        "hosts.folders",
        "hosts.plugins",
        "hosts.table",
        "rendering",
        "settings",
    },
    {"execution", "hosts", "roots", "skills"},
    {"usage"},
    {"embedders"},
    {"readers"},
    {
        "index.documents.document",
        "index.documents.hubness",
        "index.next_steps",
        "index.roots.scope",
    },
    {"index.storage"},
    {"index.dense", "index.lexical"},
    {"index.chunk_index", "index.corpus", "index.documents", "index.roots"},
    {"index.search"},
    {"index.indexing"},
    {"index", "usage.recording"},
    {"library"},
    {"agents", "ard", "budget", "evaluation", "remote", "training"},
    {"mcp_server"},
    {"reports"},
    {"daemon", "ui"},
    {"cli"},
    {"__init__", "__main__"},
)
FLOOR = {unit: floor for floor, units in enumerate(FLOORS) for unit in units}
APART = [  # the members of each set never import each other
    {"skills", "execution", "roots"},
    *({"evaluation", lower} for lower in ("skills", "execution", "index")),
    {"agents.session", "evaluation"},
    {"daemon", "ui"},
    {"index.lexical", "index.dense"},
    {"index.search.calibration", "index.lexical", "index.dense"},
]
SEARCHING = {  # the only modules of the evaluation that may see skills and their index
    "evaluation.answering",
    "evaluation.judged_index",
    "evaluation.own_skills",
}
IMPORTERS = {  # the only modules that may import each of these, at any depth of their code
    "anyio": {"cli.interactive.ui", "cli.hosts.mcp", "mcp_server", "roots.skill_servers"},
    "click": {"cli"},
    "faiss": {"index.dense.vectors"},
    "filelock": {"files.locks"},
    "google": {"agents.integrations.adk"},
    "ir_measures": set(),  # the tests alone
    "langchain_core": {"agents.integrations.langchain"},
    "huggingface_hub": {"embedders.sentence_transformer_embedder"},
    "matplotlib": {"evaluation.reporting.plots"},
    "mcp": {"mcp_server", "roots.skill_servers"},
    "mcp_types": {"mcp_server", "roots.skill_servers"},
    "onnx": {"training.onnx_model"},
    "onnxruntime": {"embedders.onnx_embedder"},
    "opentelemetry": {"execution.tracing"},
    "packaging": {"skills.versions"},
    "platformdirs": {"settings.user_folders"},
    "pydantic": {"cli.models", "evaluation.reporting.history", "mcp_server", "agents.toolsets"}
    | {"roots.skill_servers"}
    | {
        f"agents.{name}"
        for name in ("arguments", "default_tools", "failures", "run_tools", "schemas", "tool")
    },
    "prompt_toolkit": {"cli.interactive.picker"},
    "pymilvus": {"remote.client"},
    "pydantic_ai": {"agents.integrations.pydantic_ai"},
    "rank_bm25": {"index.lexical.postings"},
    "rich": {"cli"},
    "safetensors": set(),  # scripts alone
    "sentence_transformers": {"embedders.sentence_transformer_embedder"},
    "Stemmer": {"text.tokenizer"},
    "jinja2": {"rendering.html_page"},
    "starlette": {"mcp_server", "ui.app"},
    "tokenizers": {"embedders.onnx_embedder"},
    "torch": {"embedders.torch_runtime"},
    "transformers": {"training.torch_bert"},
    "uvicorn": {"mcp_server"},
    "watchfiles": {"library.watcher"},
    "yaml": {"skills.frontmatter"},
}
REPORTING = {"onnxruntime", "ray", "sentence_transformers"}
"""Libraries that report to their makers, themselves or by what they import, unless forbidden to."""
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.popen", "os.system"} | {
    "yaml.load_all",
    "yaml.unsafe_load",
}
DANGEROUS_FLAGS = {"allow_pickle", "shell", "trust_remote_code"}
PURE = {  # no clock, no files, no logging
    "hosts.edit",
    "hosts.entries",
    "text.languages",
    "text.markdown",
    "ard.entries",
    "ard.registry",
    "agents.prompt",
    "agents.tool_texts",
    "text.safe_text",
    "budget.hosts",
    "evaluation.assess",
    "evaluation.comparison",
    "evaluation.confusables",
    "evaluation.measures",
    "evaluation.states",
    "skills.eval_files",
    "evaluation.reporting.figures",
    "evaluation.reporting.report",
    "evaluation.reporting.tables",
    "evaluation.types",
    "execution.workspaces.globs",
    "execution.types",
    "files.media_types",
    "index.search.calibration",
    "index.documents.document",
    "index.storage.numbering",
    "text.requests",
    "index.documents.families",
    "index.documents.relatives",
    "index.storage.family_table",
    "index.search.candidates",
    "index.search.evidence",
    "index.search.exclusion",
    "index.search.features",
    "index.search.ranker",
    "index.search.query",
    "index.lexical.field",
    "index.lexical.postings",
    "text.tokenizer",
    "library.example_review",
    "rendering.blocks",
    "mcp_server.skill_uris",
    "remote.rows",
    "remote.row_writer",
    "agents.session",
    "skills.chunks",
    "skills.versions",
    "reports.audit_text",
    "text.prose",
    "ui.islands",
    "ui.projection",
    "usage.events",
    "usage.report",
    "usage.support",
}
OPENING = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
IMPURE_MODULES = {"io", "logging", "os", "shutil", "socket", "subprocess", "tempfile", "time"}


@cache
def imports(name):
    """Return the full names of all modules that a module imports, at any depth of its code."""
    modules = set()
    for node in nodes_of(name):
        if isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            ours = {member for member in members if member.removeprefix("skillsearch.") in PATHS}
            modules |= ours or {node.module}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def internal_imports(name):
    """Return the modules of the package that a module imports."""
    ours = (other for other in imports(name) if other.startswith("skillsearch."))
    return {other.removeprefix("skillsearch.") for other in ours}


@cache
def calls(name):
    """Return all calls in a module, each with the dotted name of what is called."""
    nodes = [node for node in nodes_of(name) if isinstance(node, ast.Call)]
    return [(ast.unparse(node.func), node) for node in nodes]


def late_bans(tree):
    """Return the lines that import one of `REPORTING` in a block that does not forbid telemetry.

    A block is the body of a function or of the module; what a ``try`` holds belongs to it. What is
    imported for types alone never runs.
    """
    if not any(reported_by(node) for node in ast.walk(tree)):
        return set()
    typing = [
        node
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for statement in test.body
        for node in ast.walk(statement)
    ]
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Module)]
    late = set()
    for scope in scopes:
        inner = [node for node in ast.walk(scope) if isinstance(node, ast.FunctionDef)]
        nested = {
            id(node) for function in inner if function is not scope for node in ast.walk(function)
        }
        nested |= set(map(id, typing))
        own = [node for node in ast.walk(scope) if id(node) not in nested]
        bans = [n.lineno for n in own if isinstance(n, ast.Call) and is_ban(n)]
        for node in own:
            if reported_by(node):
                late |= {node.lineno} if not any(line < node.lineno for line in bans) else set()
    return late


def reported_by(node):
    """Return which of `REPORTING` a statement imports."""
    libraries = [node.module] if isinstance(node, ast.ImportFrom) else []
    libraries = [alias.name for alias in node.names] if isinstance(node, ast.Import) else libraries
    return {str(library).split(".")[0] for library in libraries} & REPORTING


def is_ban(call):
    """Return whether a call is one of `forbid_telemetry`."""
    return ast.unparse(call.func) == "forbid_telemetry"


def within(name, unit):
    """Return whether a module is a unit or lies in it."""
    return name == unit or name.startswith(f"{unit}.")


def floor(name):
    """Return the floor of a module: the floor of the longest unit that contains it."""
    return FLOOR[max((unit for unit in FLOOR if within(name, unit)), key=len)]


def sideways(name):
    """Return the imports of a module that it is to be kept apart from."""
    intruders = {
        other
        for group in APART
        for mine in group
        for theirs in group - {mine}
        for other in internal_imports(name)
        if within(name, mine) and within(other, theirs)
    }
    return (
        {other for other in intruders if within(other, "execution")}
        if name in SEARCHING
        else intruders
    )


def test_a_module_imports_from_no_floor_above_its_own():
    """Read from the ground up, every name is known before it is used."""

    def climbing(name):
        return {other for other in internal_imports(name) if floor(other) > floor(name)}

    assert offenders(climbing) == {}


def test_modules_that_are_to_be_kept_apart_are():
    """They can be understood, and changed, one without the other."""
    assert offenders(sideways) == {}


def test_no_modules_import_each_other_in_a_circle():
    waiting = {name: internal_imports(name) & set(PATHS) - {name} for name in PATHS}
    while ready := {name for name, needed in waiting.items() if not needed & set(waiting)}:
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert waiting == {}


def test_each_library_has_one_importer():
    """A library can be changed, or come late, in one place."""

    def intruding(name):
        libraries = {other.split(".")[0] for other in imports(name)} & IMPORTERS.keys()
        return {lib for lib in libraries if not any(within(name, unit) for unit in IMPORTERS[lib])}

    assert offenders(intruding) == {}


def test_scripts_of_example_skills_need_the_standard_library_alone():
    """They run where only Python is sure to be."""
    standard = sys.stdlib_module_names - FORBIDDEN_MODULES

    def foreign(name):
        return {other.split(".")[0] for other in imports(name)} - standard

    assert offenders(foreign, EXAMPLES) == {}


@pytest.mark.slow
def test_telemetry_is_forbidden_before_a_library_that_reports_is_imported():
    """In the package and in the scripts; libraries begin to report with their first line."""
    every = (PACKAGE.parent / "scripts").rglob("*.py")
    scripts = sorted(path for path in every if path.parent.name != "peers")  # without network
    trees = {name: tree_of(name) for name in PATHS}
    trees |= {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in scripts}
    late = {name: late_bans(tree) for name, tree in trees.items()}
    assert {name: lines for name, lines in late.items() if lines} == {}
    assert late_bans(ast.parse("def f():\n import onnxruntime.capi\nforbid_telemetry()")) == {2}
    assert late_bans(ast.parse("import onnxruntime\nforbid_telemetry()")) == {1}
    assert late_bans(ast.parse("if TYPE_CHECKING:\n import onnxruntime")) == set()
    assert late_bans(ast.parse("if TYPE_CHECKING:\n pass\nelse:\n import onnxruntime")) == {4}


def dangerous(name):
    """Return what runs text as code, unpickles, or starts a shell in a module."""
    dangers = {other.split(".")[0] for other in imports(name)} & FORBIDDEN_MODULES
    for called, node in calls(name):
        flags = {item.arg for item in node.keywords if ast.unparse(item.value) != "False"}
        unsafe_yaml = called == "yaml.load" and "Safe" not in ast.unparse(node)
        if called in FORBIDDEN_CALLS or flags & DANGEROUS_FLAGS or unsafe_yaml:
            dangers.add(ast.unparse(node))
    return dangers


def test_nothing_runs_text_as_code_or_unpickles():
    assert offenders(dangerous) == {}


def test_only_the_command_line_prints():
    """A library that prints spoils the output of its host."""
    library = [name for name in PATHS if not within(name, "cli")]
    assert offenders(lambda name: {c for c, _ in calls(name) if c == "print"}, library) == {}


def test_few_modules_read_the_environment():
    allowed = {"settings.config", "settings.environ", "settings.user_folders"}
    others = set(PATHS) - {*allowed, "mcp_server.token_file"}
    readers = {"environ", "environb", "getenv", "getenvb"}

    def reading(name):
        nodes = nodes_of(name)
        from_os = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "os"]
        taken = {alias.name for node in from_os for alias in node.names}
        return readers & (taken | {node.attr for node in nodes if isinstance(node, ast.Attribute)})

    assert offenders(reading, others) == {}


def test_the_middle_is_pure():
    """Pure modules open no file, and import nothing that touches processes or the network."""

    def touching(name):
        opened = {called.rpartition(".")[2] for called, _ in calls(name)} & OPENING
        return opened | ({other.split(".")[0] for other in imports(name)} & IMPURE_MODULES)

    assert set(PATHS) >= PURE
    assert offenders(touching, PURE) == {}


def test_the_page_of_the_house_draws_every_room():
    drawing = (PACKAGE / "README.md").read_text("utf-8").split("```")[1]
    words = {word for line in drawing.strip().splitlines() for word in line[13:].split()}
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.glob("[!_]*")}
    assert words == rooms - {"README.md", "CHANGES.md", "py.typed"}


def test_every_module_says_what_it_is_for():
    assert [name for name in PATHS if not ast.get_docstring(tree_of(name))] == []
