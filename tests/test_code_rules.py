"""The rules for classes, functions and errors of the package, checked from its own source."""

import ast
import re
import runpy
from collections import Counter
from pathlib import Path

from skillsearch import errors

source_trees = runpy.run_path(str(Path(__file__).with_name("source_trees.py")))
PACKAGE, PATHS, FILES, FUNCTION = map(source_trees.get, ("PACKAGE", "PATHS", "FILES", "FUNCTION"))
tree_of, nodes_of, offenders = map(source_trees.get, ("tree_of", "nodes_of", "offenders"))

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


SHARED_NAMES = {
    "Skill": "two of the documents behind the toolsets call theirs so, as the package does",
    "SkillMetadata": "one of these documents too",
    "SkillsManager": "two of these documents",
    "ListSkillsArgs": "a document's arguments of the tool that the default tools have too",
    "SearchSkillsArgs": "as `ListSkillsArgs`",
}
"""Names of more than one public type, and why they are; see skillsearch/agents/toolsets."""


def types_of(tree):
    """Return the public names that a module gives to classes, and to types by an alias."""
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    assigned += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names = [*classes, *(node.id for node in assigned if isinstance(node, ast.Name))]
    return [name for name in names if re.match("[A-Z]", name) and not name.isupper()]


def test_no_two_public_types_share_a_name():
    """Who reads a name knows without its imports what it means."""
    times = Counter(name for module in PATHS for name in types_of(tree_of(module)))
    assert {name for name, count in times.items() if count > 1} == SHARED_NAMES.keys()
    lines = "A_B = 1", "class Row: pass", "Rows = list[Row]", "Kind: TypeAlias = int", "_Row = 2"
    assert types_of(ast.parse("\n".join(lines))) == ["Row", "Rows", "Kind"]


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
