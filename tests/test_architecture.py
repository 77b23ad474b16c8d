"""The layers of the package, checked from its own source."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import skillsearch
from skillsearch import errors

PACKAGE = Path(skillsearch.__file__).parent
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
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
OPENING = {"open", "read_bytes", "read_text", "write_bytes", "write_text"}
IMPURE_MODULES = {"io", "logging", "os", "shutil", "socket", "subprocess", "tempfile", "time"}


def module_name(path):
    """Return a file's module name inside the package, such as ``index.fusion``."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
EXAMPLES = {name: path for name, path in FILES.items() if name.startswith("examples.")}
PATHS = {name: path for name, path in FILES.items() if name not in EXAMPLES}


@cache
def tree_of(name):
    """Return the syntax tree of a module."""
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


@cache
def nodes_of(name):
    """Return all nodes of a module's syntax tree."""
    return tuple(ast.walk(tree_of(name)))


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


def offenders(check, names=None):
    """Return what a check finds in each module in which it finds anything."""
    return {name: faults for name in names or PATHS if (faults := check(name))}


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


CHANGING = {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault"}
CHANGING |= {"discard", "update"}


def changed_globals(tree):
    """Return the names of a module that one of its functions assigns to, or changes in place."""
    targets = [t for node in tree.body for t in getattr(node, "targets", ())]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    owned = {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    nodes = [node for function in functions for node in ast.walk(function)]
    changed = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    for node in nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name):
            is_method = isinstance(node, ast.Attribute) and node.attr in CHANGING
            if is_method or isinstance(node.ctx, ast.Store | ast.Del):
                changed |= {node.value.id} & owned
    return changed


PASSING_ON = {
    "fast_start.dataclasses.method",
    "types.signatures.taking",
    "types.signatures.checked",
    "cli.app.main",
}
PASSING_ON |= {f"agents.integrations.{name}.answer" for name in ("langchain", "pydantic_ai")}
"""Functions that stand for another one, by whose own signature their arguments are checked."""


def test_no_function_takes_a_keyword_that_it_does_not_name():
    """A misspelt one then fails mypy."""

    def loose(name):
        functions = [node for node in nodes_of(name) if isinstance(node, FUNCTION)]
        taking = {f"{name}.{each.name}": each.args.kwarg for each in functions if each.args.kwarg}
        hints = {key: ast.unparse(kwarg.annotation) for key, kwarg in taking.items()}
        typed = re.compile(r"Unpack\[\w+\]|_P\.kwargs")
        return {key for key, hint in hints.items() if not typed.fullmatch(hint)} - PASSING_ON

    assert offenders(loose) == {}


def test_no_function_of_a_script_takes_or_returns_a_namespace():
    """A misspelt option of one passes mypy."""
    functions = [
        f"{path.name}: {node.name}"
        for path in sorted((PACKAGE.parent / "scripts").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, FUNCTION)
        and "Namespace" in f"{ast.unparse(node.args)} {node.returns and ast.unparse(node.returns)}"
    ]
    assert functions == []


def test_no_module_keeps_what_its_functions_change():
    """State has an owner, an object, so that two of them do not disturb each other."""
    assert offenders(lambda name: changed_globals(tree_of(name))) == {}
    changing = "_A[1] = 2", "_A.update(b)", "global _A", "del _A[1]", "_A.b = 1", "_A[1] += 1"
    for line in changing:
        assert changed_globals(ast.parse(f"_A = {{}}\ndef f():\n {line}")) == {"_A"}, line


def test_the_page_of_the_house_draws_every_room():
    drawing = (PACKAGE / "README.md").read_text("utf-8").split("```")[1]
    words = {word for line in drawing.strip().splitlines() for word in line[13:].split()}
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.glob("[!_]*")}
    assert words == rooms - {"README.md", "CHANGES.md", "py.typed"}


STATEFUL = {
    "an index, a library or a model that stays open": """
        ContainerExecutor DocumentStore Freshness Indexer _Job LibraryThread LookTimer
        QueryEmbedder Readers RemoteIndex ScannedSource SkillIndex SkillLibrary SkillRunner
        WarmIndexes Workspace Workspaces""",
    "a session of an agent, a toolset or a person": """
        Environment Pages Picker ServerEnvironment SkillCatalog SkillLoader SkillManager
        SkillSession SkillsLoader WorkspaceToolset""",
    "a server or a connection": """
        Answers Calls ClientFolders Daemon HttpConnection MilvusServer Publisher ServedLibrary
        SessionTools SkillServer Teller _Bound _Client _Deadline _Owed _Sessions""",
    "a cache, whose answers are those that it would compute": """
        Embedders EmbeddingCache Memo RememberingEmbedder RememberingReader RememberingReaders
        TokenCounter UnigramTokenizer _Pattern""",
    "a writer, which ends with a file": """
        ArrayWriter Builder ChunkWriter DenseWriter DocumentWriter Indexing Journal
        LexicalWriter RowStates RowWriter RunState SegmentWriter WriteClaim _GraphWriter _Rows
        _Run""",
    "what is collected within one call": """
        Budget Children CountedOkapi EmbeddingQueue FileReader Gathering Histograms Kept
        MemoryArtifactStore NewVectors SegmentScores TermTallies Variables _Asker _Collection
        _EventReader _Listing _Sieve _TarStream _Walk""",
}
"""Classes whose objects change after they are made, by why they do; all others are values."""
FIRST_METHODS = {"__init__", "__post_init__"}


def changed_attributes(cls):
    """Return the attributes that methods of a class assign, or change in place, once it is made."""
    methods = [node for node in cls.body if isinstance(node, FUNCTION)]
    later = [method for method in methods if method.name not in FIRST_METHODS]
    changed = set()
    for node in (node for method in later for node in ast.walk(method)):
        target = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
        is_method = isinstance(node, ast.Attribute) and node.attr in CHANGING
        if is_method or isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            changed |= {name for each in (node, target) if (name := attribute_of_self(each))}
    return changed


def attribute_of_self(node):
    """Return the name of an attribute of ``self``, None for anything else."""
    is_ours = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return node.attr if is_ours and node.value.id == "self" else None


def mutable(tree):
    """Return the classes of a module whose objects change, and dataclasses that are not frozen."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    decorators = {cls: " ".join(map(ast.unparse, cls.decorator_list)) for cls in classes}
    return {
        cls.name
        for cls in classes
        if changed_attributes(cls)
        or ("dataclass" in decorators[cls] and "frozen=True" not in decorators[cls])
    }


def test_only_few_classes_hold_state():
    """Values are frozen: who has one knows that nobody changes it."""
    stateful = {name for module in PATHS for name in mutable(tree_of(module))}
    assert stateful == {name for names in STATEFUL.values() for name in names.split()}
    changing = "self.a = 1", "self.a[1] = 2", "self.a.append(1)", "del self.a", "self.a += 1"
    for line in changing:
        assert mutable(ast.parse(f"class A:\n def f(self):\n  {line}")) == {"A"}, line
    assert mutable(ast.parse("@dataclass(slots=True)\nclass A: pass")) == {"A"}
    assert mutable(ast.parse("class A:\n def __init__(self):\n  self.a = 1")) == set()


OF_LIBRARIES = set(
    """__doc__ __qualname__ __signature__ attrib daemon document exit_code max_width
    min_points_per_centroid niter ratio should_exit stream tag tail timeoutlen
    ttimeoutlen""".split()
)
"""Attributes of objects of libraries, which are told so what to do."""
TOLD = {
    "usage.recording": {"index.usage"},  # an open index, what its skills were used for
    "mcp_server.served_library": {"library.selection"},  # an open library, what a client sees
}


def made_in(function):
    """Return the names of what a function makes by calls, and of what ``with`` and a catch name."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler):
            names.add(node.name)
        is_made = isinstance(getattr(node, "value", None), ast.Call)
        targets = getattr(node, "targets", [getattr(node, "target", None)]) if is_made else []
        targets += [node.optional_vars] if isinstance(node, ast.withitem) else []
        stored = [inner for target in targets if target for inner in ast.walk(target)]
        names |= {ast.unparse(n) for n in stored if isinstance(getattr(n, "ctx", None), ast.Store)}
    return names


def told(tree):
    """Return the attributes that functions assign to objects which they have not made."""
    return {
        ast.unparse(node)
        for function in ast.walk(tree)
        if isinstance(function, FUNCTION)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
        if ast.unparse(node.value) not in made_in(function) | {"self", "sys"}
    }


def test_an_object_is_changed_by_its_own_methods_or_by_who_made_it():
    changed = offenders(
        lambda name: {
            each for each in told(tree_of(name)) if each.split(".")[-1] not in OF_LIBRARIES
        }
    )
    assert changed == TOLD
    assert told(ast.parse("def f(a):\n b = A()\n b.c, a.d, b.e.f = 1")) == {"a.d", "b.e.f"}


def test_every_module_says_what_it_is_for():
    assert [name for name in PATHS if not ast.get_docstring(tree_of(name))] == []


SHARED_NAMES = {
    "Skill": "two of the documents behind the toolsets call theirs so, as the package does",
    "SkillMetadata": "one of these documents too",
    "SkillsManager": "two of these documents",
    "ListSkillsArgs": "a document's arguments of the tool that the default tools have too",
    "SearchSkillsArgs": "as `ListSkillsArgs`",
}
"""Names of more than one public class, and why they are; see skillsearch/agents/toolsets."""


def test_no_two_public_classes_share_a_name():
    """Who reads a name knows without its imports what it means."""
    statements = [node for name in PATHS for node in tree_of(name).body]
    times = Counter(node.name for node in statements if isinstance(node, ast.ClassDef))
    shared = {name for name, count in times.items() if count > 1 and not name.startswith("_")}
    assert shared == SHARED_NAMES.keys()


OURS = {
    name: {parent.__name__ for parent in kind.__mro__ if parent.__name__ in vars(errors)}
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.SkillSearchError)
}
"""The name of each of our errors, with the names of the kinds of error that it is."""


OF_ARGUMENTS = {
    "agents.arguments": "a host or a model calls a tool with what is no object",
    "agents.prompt": "a form that there is not",
    "agents.session": "a lifetime or a limit that there is not",
    "agents.tool": "names that a vendor refuses, or that two tools share",
    "agents.toolsets.context": "a summary shorter than its own head",
    "agents.toolsets.environments": "a description shorter than its own head",
    "agents.toolsets.workspace": "an overview of no or too many skills, or an unknown executor",
    "execution.isolation.capture": "an argument or a variable that no program can get",
    "index.indexing.snapshot": "rows that are not as many as their paths",
    "types.json_values": "a value that is none of its choices; `errors` builds on this module",
}
"""The modules that raise a plain ValueError, and the wrong argument of a caller that it is about.

A text or a file that is not what it must be is an `UnusableError`.
"""


def plain_value_errors(tree):
    """Return the lines that raise a ValueError itself, called or not."""
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    return {e.lineno for e in errors if ast.unparse(e).partition("(")[0] == "ValueError"}


def test_a_plain_value_error_is_about_an_argument():
    modules = offenders(lambda name: plain_value_errors(tree_of(name)))
    assert modules.keys() == OF_ARGUMENTS.keys()
    assert plain_value_errors(ast.parse("raise UnusableError(x)\nraise ValueError(x)")) == {2}


def causeless(tree):
    """Return the lines that raise an error in place of another, and drop that one."""
    raises = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return {node.lineno for node in raises if isinstance(node.cause, ast.Constant)}


def test_an_error_keeps_its_cause():
    """Else the log of a service does not say what went wrong first."""
    assert offenders(lambda name: causeless(tree_of(name))) == {}
    assert causeless(ast.parse("raise A from None\nraise A from b\nraise A")) == {1}


def is_command(function):
    """Return whether a function is a command of the command line."""
    return any("click.command" in ast.unparse(by) for by in function.decorator_list)


def test_a_command_only_parses_calls_and_prints():
    """What takes it more than 25 lines, its docstring apart, belongs to a function of its own."""

    def lengthy(name):
        functions = [node for node in nodes_of(name) if isinstance(node, FUNCTION)]
        bodies = {node.name: node.body[1:] for node in functions if is_command(node)}
        lines = {key: body[-1].end_lineno - body[0].lineno + 1 for key, body in bodies.items()}
        return {key: count for key, count in lines.items() if count > 25}

    assert offenders(lengthy) == {}


BRANCHES = ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp
BRANCHES |= ast.BoolOp | ast.comprehension | ast.Assert | ast.match_case


def winding(tree):
    """Return the functions with a complexity, one and their branches, above 12; and that number."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    numbers = [(f.name, 1 + sum(isinstance(n, BRANCHES) for n in ast.walk(f))) for f in functions]
    return {(name, number) for name, number in numbers if number > 12}


def test_no_function_has_a_complexity_above_12():
    """Who reads one keeps all its branches in mind; a choice in an expression is one too."""
    assert offenders(lambda name: winding(tree_of(name)), FILES) == {}
    assert winding(ast.parse("def f():\n" + " if a: b\n" * 11)) == set()
    assert winding(ast.parse("def f():\n" + " assert [a or b for c in d]\n" * 4)) == {("f", 13)}


def public_functions(node):
    """Return the public functions and methods of a module or class, and of the classes in it.

    Commands are left out: their docstrings are shown to users, by --help.
    """
    functions = []
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, FUNCTION):
            functions += [] if is_command(inner) or inner.name.startswith("_") else [inner]
        elif not (isinstance(inner, ast.ClassDef) and inner.name.startswith("_")):
            functions += public_functions(inner)
    return functions


def raised(node):
    """Return which of our errors a function raises itself and does not catch by that name."""
    names = set()
    if isinstance(node, ast.Raise) and node.exc:
        names = set(ast.unparse(node.exc).partition("(")[0].split(".")) & OURS.keys()
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, FUNCTION | ast.ClassDef):
            is_tried = isinstance(node, ast.Try) and inner in node.body
            names |= raised(inner) - (caught(node) if is_tried else set())
    return names


def caught(node):
    """Return the names of the errors that a ``try`` catches."""
    kinds = [ast.unparse(handler.type) for handler in node.handlers if handler.type]
    return set(re.findall(r"\w+", " ".join(kinds)))


def unsaid(tree):
    """Return the errors that public functions raise, and name by no kind in their docstrings."""
    return {
        f"{function.name}, line {function.lineno}: {error}"
        for function in public_functions(tree)
        for error in raised(function)
        if not OURS[error] & set(re.findall(r"\w+", ast.get_docstring(function) or ""))
    }


def test_docstrings_name_the_errors_that_a_public_function_raises():
    """Each by its class or one above it, as in "A WorkspaceError if the folder is gone."."""
    assert offenders(lambda name: unsaid(tree_of(name))) == {}
    silent = "def f():\n if x:\n  raise errors.ParseError(x)"
    assert unsaid(ast.parse(silent)) == {"f, line 1: ParseError"}
    assert unsaid(ast.parse(silent.replace(" if", " 'A SkillError.'\n if"))) == set()


def test_only_classes_of_characters_are_possessive_in_patterns():
    """Python 3.11.0 to 3.11.4, which systems still ship, match a possessive group wrongly."""
    possessive = re.compile(r"\)(?:[?*+]|\{\d*,?\d*\})\+|\(\?>")
    texts = {name: path.read_text(encoding="utf-8") for name, path in PATHS.items()}
    assert [name for name, text in texts.items() if possessive.search(text)] == []
    assert possessive.search(r"(?:a|b)*+")
    assert possessive.search(r"(?>a)")
    assert not possessive.search(r"(?:a|b)*[^c]*+")
