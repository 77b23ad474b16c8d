"""Lines that have a stranger's program run unseen; pure.

They name a page or file, and the reader of the page, not the skill, sees what is run. Every
expression is bounded and looks at one line or a few, so time is linear even in a hostile text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from skillsearch.skills.findings import Finding
from skillsearch.text.safe_text import visible
from skillsearch.types.skills import Severity

_TOGETHER = 4
"""Lines, the last one counted, that may say together what to do."""
_LINE_CHARS = 4_000
_URL = re.compile(r"\bhttps?://", re.IGNORECASE)
_EXTRACT = re.compile(
    r"\b(?:extract|unzip|unpack|unrar|decompress|entpack|décompress|extrai|descompr|распак)"
    r"|解压|解壓|展開|解凍|압축",
    re.IGNORECASE,
)
_PASSWORD = re.compile(
    r"(?:\b(?:pass(?:word|code|phrase)?|pwd|passwort|kennwort|contraseña|senha|mot de passe|пароль)"
    r"|密码|密碼|パスワード|비밀번호)[*_]{0,2}\s?(?:(?:is|ist|es|est|[:=\uff1a])\s?[`'\"*“]{0,3}|[`'\"*“]{1,3})\w"
    r"|\(\s?extract(?: it)? (?:using|with)\s?:",
    re.IGNORECASE,
)
_RUN = re.compile(
    r"\b(?:run|execute|launch|start|install|double-click|open)\b|\.(?:exe|msi|dmg|pkg|bat)\b"
    r"|\b(?:ausführ|starte|ejecut|execut|lanc|exécut|запуст)|运行|運行|执行|安装|実行|실행",
    re.IGNORECASE,
)
_SHELL = r"(?:sudo )?(?:(?:ba|z|da|k)?sh|python3?|node|perl|ruby|php)\b"
_DECODER = r"\b(?:base64 +(?:-d\b|--?decode\b)|openssl [^\n|`]{0,60}-d\b|xxd +-r\b)"
_DECODED = re.compile(
    rf"\b(?:echo|printf|curl|wget|cat)\b[^\n`]{{0,2000}}?{_DECODER}[^\n|`]{{0,80}}\| *{_SHELL}"
    rf"|{_DECODER} *(?:<<<|-i\b|[\w.~/]+[./]\w)[^\n|`]{{0,2000}}\| *{_SHELL}"
    rf"|\b(?:eval|(?:ba|z|da)?sh +-c|(?:ba|z)?sh +<)[ (\"']{{0,4}}[$`<(][^\n]{{8,2000}}?{_DECODER}"
    r"|\b(?:exec|eval) ?\( ?(?:atob|(?:__import__\([\"']base64[\"']\)|base64)\.b64decode)"
    r"\( ?b?[\"'][\w+/=]{24}"
    r"|\bpowershell[^\n]{0,80} -e(?:nc|ncodedcommand)? +[\"']?[a-z0-9+/=]{60}"
    r"|\b(?:iex|invoke-expression)\b[^\n]{0,200}frombase64string"
    r"|frombase64string[^\n]{0,2000}\| *(?:iex|invoke-expression)\b",
    re.IGNORECASE,
)
_PASTED = re.compile(
    r"(?<!not )(?<!never )\b(?:copy|paste|execute|run|type|enter)\b[^\n]{0,120}"
    r"\b(?:in|into|to) (?:(?:your|the|a|an) )?(?:mac ?os |mac )?"
    r"(?:terminal|powershell|cmd|command prompt|console|shell|run dialog)\b"
    r"|(?:复制|複製|粘贴|貼上|コピー|貼り付け|복사)[^\n]{0,60}(?:终端|終端|ターミナル|터미널|terminal)"
    r"|(?:终端|終端|ターミナル|터미널)[^\n]{0,60}(?:粘贴|貼上|貼り付け|붙여)"
    r"|\b(?:kopier|copi|pega|coll|einfüg|füge|cole)\w*\b[^\n]{0,120}\b(?:terminal|powershell)\b",
    re.IGNORECASE,
)


def find_lures(text: str) -> Iterator[Finding]:
    """Yield the first lure of each kind in a Markdown text."""
    lines = [line[:_LINE_CHARS] for line in visible(text).split("\n")]
    reported: set[str] = set()
    for number, line in enumerate(lines, 1):
        together = "\n".join(lines[max(0, number - _TOGETHER) : number])
        for what, severity in _lures_of(line, together):
            if what not in reported:
                reported.add(what)
                message = f"It has the agent or its user {what}; do not load it."
                yield Finding("lure", message, number, severity)


def _lures_of(line: str, together: str) -> Iterator[tuple[str, Severity]]:
    if _DECODED.search(line):
        yield "run a text that is decoded first", "error"
    has_url = _URL.search(together)
    if has_url and all(rule.search(together) for rule in (_EXTRACT, _RUN, _PASSWORD)):
        yield "fetch an archive with a password, which hides it from scanners, and run it", "error"
    if has_url and _PASTED.search(line):
        yield "paste what a page elsewhere says into a terminal", "warning"
