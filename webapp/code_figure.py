"""How a block of code is shown: its language's name, its colours, its frame. Knows nothing of Markdown or of pages.

Colours are four classes, as the style sheet has them: ``k`` keyword, ``n`` a name being defined, ``s`` string,
``c`` comment. Everything else is plain text. The code itself is always escaped, never changed.
"""

import re
import time
from functools import lru_cache
from html import escape
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, String

#: Longer code is shown without colours.
COLOURED_CHARS = 20_000
#: Some lexers take time that grows with the square of hostile code. After this much work the rest stays plain.
COLOURING_SECONDS = 0.1
#: Blocks whose coloured lines are kept: about as many as are streamed at once.
KEPT_BLOCKS = 128

#: What people write after the fence, pygments' name for it (empty: no colours), our name for it. Languages that are
#: not here are named as written and stay plain, so that no unusual lexer ever meets hostile input.
_FAMILIES: tuple[tuple[str, str, str], ...] = (
    ("bash sh shell zsh", "bash", "Shell"),
    ("c h", "c", "C"),
    ("console shell-session", "", "Console"),
    ("cpp c++ cc hpp", "cpp", "C++"),
    ("csharp cs c#", "csharp", "C#"),
    ("css", "css", "CSS"),
    ("diff patch", "diff", "Diff"),
    ("dockerfile docker", "docker", "Dockerfile"),
    ("elixir ex exs", "elixir", "Elixir"),
    ("go golang", "go", "Go"),
    ("graphql", "graphql", "GraphQL"),
    ("haskell hs", "haskell", "Haskell"),
    ("html", "html", "HTML"),
    ("ini cfg conf", "", "INI"),
    ("java", "java", "Java"),
    ("javascript js mjs jsx node", "javascript", "JavaScript"),
    ("json jsonc json5", "json", "JSON"),
    ("kotlin kt", "kotlin", "Kotlin"),
    ("lua", "lua", "Lua"),
    ("makefile make", "make", "Makefile"),
    ("nginx", "nginx", "nginx"),
    ("perl pl", "perl", "Perl"),
    ("php", "php", "PHP"),
    ("powershell ps1 pwsh", "powershell", "PowerShell"),
    ("python py python3", "python", "Python"),
    ("r", "r", "R"),
    ("ruby rb", "ruby", "Ruby"),
    ("rust rs", "rust", "Rust"),
    ("scala", "scala", "Scala"),
    ("scss", "scss", "SCSS"),
    ("sql postgresql postgres psql mysql sqlite", "postgresql", "SQL"),
    ("swift", "swift", "Swift"),
    ("toml", "toml", "TOML"),
    ("typescript ts tsx", "typescript", "TypeScript"),
    ("xml svg xhtml", "xml", "XML"),
    ("text txt plain plaintext output", "", "Text"),
    ("yaml yml", "yaml", "YAML"),
)
LANGUAGES = {word: (lexer, label) for words, lexer, label in _FAMILIES for word in words.split()}

_CLASSES = (
    (Keyword, "k"),
    (Name.Function, "n"),
    (Name.Class, "n"),
    (Name.Decorator, "n"),
    (Name.Tag, "k"),
    (String, "s"),
    (Comment, "c"),
)
_WORD = re.compile(r"[\w+#.-]{1,24}")


def code_figure(code: str, info: str = "") -> str:
    """The figure of one block: caption, then the code with its colours. `info` is what stands after the fence."""
    word = info.split(maxsplit=1)[0].lower() if info.strip() else ""
    label = _label(word)
    name = "Code" if label == "Code" else f"{label} code"
    return (
        f'<figure class="code"><figcaption><span>{escape(label)}</span></figcaption>'
        f'<pre tabindex="0" aria-label="{escape(name)}"><code>{_coloured(code, word)}</code></pre></figure>\n'
    )


def _label(word: str) -> str:
    if word in LANGUAGES:
        return LANGUAGES[word][1]
    return word if _WORD.fullmatch(word) else "Code"


def _coloured(code: str, word: str) -> str:
    """The code with its colours; a last line that has no end is still being written and has none yet."""
    lexer = LANGUAGES.get(word, ("", ""))[0]
    if not lexer or len(code) > COLOURED_CHARS:
        return escape(code, quote=False)
    lines, end, rest = code.rpartition("\n")
    return _coloured_lines(lines + end, lexer) + escape(rest, quote=False)


@lru_cache(maxsize=KEPT_BLOCKS)
def _coloured_lines(code: str, lexer: str) -> str:
    """Whole lines. While a block is streamed the same ones are asked for with every piece, and colours are dear."""
    parts: list[str] = []
    run, run_class, done = "", "", 0
    deadline = time.thread_time() + COLOURING_SECONDS
    for kind, text in _lexer(lexer).get_tokens(code):
        css_class = _class_of(kind)
        if css_class != run_class:
            parts.append(_span(run, run_class))
            run, run_class = "", css_class
        run += text
        done += len(text)
        if time.thread_time() > deadline:
            break
    return "".join([*parts, _span(run, run_class), escape(code[done:], quote=False)])


@lru_cache
def _lexer(name: str) -> Any:
    """One lexer a language; it keeps nothing between two texts. ``startinline`` concerns PHP only."""
    return get_lexer_by_name(name, stripnl=False, ensurenl=False, startinline=True)


@lru_cache(maxsize=1024)
def _class_of(kind: Any) -> str:
    return next((css_class for family, css_class in _CLASSES if kind in family), "")


def _span(text: str, css_class: str) -> str:
    shown = escape(text, quote=False)
    return f'<span class="{css_class}">{shown}</span>' if css_class and shown else shown
