#!/usr/bin/python3
"""Riddling patterns in texts: the table of patterns, the exceptions, and the count.

  tests/form/language.py [FILE...]   shows each place

test_language.py holds that there is none.  Measured on the manual pages of nbdkit,
nbd-client and libnbd in Debian 12, 229 pages of 271,570 words, on 2026-11-29: 6 places.
"""

import ast
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ.get("WEFT_SRCDIR") or pathlib.Path(__file__).parents[2])

# --- Patterns ------------------------------------------------------------------
#
# ^ is the start of a sentence, ^¶ that of a paragraph. A pattern stands here if nbdkit's
# manual has almost none of it (test_others).

CLAUSE = r"(?:what(?:ever)?|who(?:ever)?|whichever|one that|those (?:who|that)|that which)"

PATTERNS = [
    # name, expression, what to write instead
    ("clause as subject",
     rf"(?i:(?:^|; |: )(?:and |but |so |or |then |else |also |only )?{CLAUSE} )"
     rf"|, (?:and|but|so|or|then) (?:whatever|whoever|one that|that which) "
     rf"|\b[Oo]nly (?:what|who) "
     rf"|\b(?:when|if|while|where|until|unless|and|or|by|to|of|for|from|before|than|as|"
     rf"with|beside) (?:who(?! is\?)|whoever|that which) ",
     "the thing's name as the subject"),
    ("opening",
     r"^(?:So (?:it is with|is|are|was|were|does|do|did|has|have|had|can|may|must)\b"
     r"|Nor\b|Else\b|Be it\b|Of (?:the|a|an|what|who|those|it|all|its|one) |All (?:that|else) "
     r"|None (?:but|other)\b|Such (?:as|is|are) |Not (?:so|till|until)\b"
     r"|It is (?:the|a|an) \w+ (?:that|who) )"
     r"|(?:; |: )nor\b|(?:; |: |, )so (?:is|are|does|do|has|have|was)\b",
     "subject first"),
    ("double negation",
     r"(?i:\b(?:nobody|nothing|none|no one|no \w+)\b(?:(?! if | so | and | or | as | when )"
     r"[^.;:,()])*(?:\bnot\b|n't\b|\bnobody\b|\bnothing\b|\bnever\b|\bnone\b|\bwithout\b)"
     r"|\b(?:is|are|was|were) no (?:\w+ )?(?:that|who|which) [^.;:,]*(?:\bnot\b|n't\b))",
     "say what is, not what is not"),
    ("pronoun without a noun",
     r"^¶(?:It|They|He|That|One) (?!(?:is|may be) (?:not |now |also |the case )?(?:\w+ )?"
     r"(?:possible|usual|safe|best|necessary|recommended|important|tempting|the case)\b)"
     r"(?:is|are|was|were|has|have|may|can|must|does|do|will|\w+s) ",
     "a paragraph begins with the noun"),
    ("said by nobody",
     r"\b(?:is|are|was|were|be|been) (?:told|said)\b(?! by\b)",
     "who says it, active: weftctl prints"),
    ("for because",
     r", for (?:it|they|there|he|nobody|nothing|that|each|what|these|those) ",
     "because"),
]

# Words of ours where the field has one.
WORDS = [
    (r"\banswered for\b", "acknowledged"),
    (r"\b(?:ma[dk]es?|making) (?:\w+ ){0,6}equal\b", "resynchronize; in sync"),
    (r"\bst(?:ands?|ood|anding) still\b", "is frozen, waits"),
    (r"\bof (?:no )?use(?: no more)?\b(?! (?:of|for|to|as|in|by))", "valid, no longer valid"),
    (r"\bno more(?=[.;,:)]|$)", "no longer"),
    (r"\ball the same\b", "anyway"),
    (r"\bno place beside\b", "cannot be combined with"),
    (r"\b(?:be it|whence|thereby|thereof|thereupon|wherefrom|whereof)\b", "(plain words)"),
    (r"\banew\b", "again"),
    (r"\b(?:is|are|was|were) to be (?!able)", "must be"),
    (r"\bsome day\b", "(say when)"),
    (r"\b[Nn]eed be\b", "if necessary"),
    (r"\bas ever\b", "as before"),
    (r"\bof late\b", "recently"),
    (r"\bso (?:many|few|far|grave) (?:of|back)\b", "(a number)"),
    (r"\bsees? to (?:it|that)\b|\bseen to\b", "ensure"),
    (r"\bbe none\b|\bis none that\b", "is not"),
    (r"\b(?:holds?|held|holding) up\b", "block, delay"),
    (r"\b(?:has|have|had) (?:it|them|that|all) (?:\w+ )?(?:by heart|in hand)\b", "knows"),
    (r"\bha(?:s|ve|d) heard of it\b", "has been told"),
    (r"\bbecame of\b", "(what happened to)"),
    (r"\bfor certain\b", "reliably"),
    (r"\blets? (?:\w+ )?in\b(?! (?:the|a)\b)|\blet in\b", "allow, admit"),
]
PATTERNS += [("word: " + said, word, said) for word, said in WORDS]
TABLE = [(name, re.compile(expression), advice) for name, expression, advice in PATTERNS]

# Allowed matches of a pattern: (file, words of the sentence): the reason.
EXCEPTIONS = {
}

# --- Texts ---------------------------------------------------------------------
#
# A text is a list of paragraphs; a paragraph is (line, words).

INLINE = {"Xr", "Cm", "Fl", "Ar", "Pa", "Ev", "Em", "Ql", "Dq", "Pq", "Dv", "Sx", "Ic", "Nm",
          "Po", "Pc", "Ns", "No", "Sy", "Op", "B", "I", "BR", "IR", "RB", "RI", "Li"}


def manual(text, name):
    """mdoc(7) and man(7); headings, tags and displays are no sentences."""
    found, words, start, literal, before = [], [], 1, False, ""
    for number, line in enumerate(text.splitlines() + [".Pp"], 1):
        if re.match(r"[.'](?:Bd|Vb|nf|EX)\b", line):
            literal = True
        if re.match(r"[.'](?:Ed|Ve|fi|EE)\b", line):
            literal = False
        macro = re.match(r"[.'](?:\\\"|\w*)", line)
        if macro and line[1:len(macro[0])] not in INLINE:
            if words:
                # The pronoun at the head of an item means its tag.
                item = "" if before.upper() == ".PP" else " "
                found.append((start, item + " ".join(words)))
            words, before = [], macro[0]
            continue
        if literal:
            continue
        if macro:
            parts = line.split()
            if parts[0] == ".Nm" and (len(parts) == 1 or len(parts[1]) == 1):
                parts.insert(1, name)
            if parts[0] == ".Xr" and len(parts) > 2:
                parts[1:3] = [f"{parts[1]}({parts[2]})"]
            line = " ".join(p for p in parts[1:] if p not in INLINE)
        line = re.sub(r"\\f(?:\(..|.)|\\&|\\c", "", line).replace(r"\-", "-").replace(
            r"\(aq", "'").replace(r"\(em", "-").replace(r"\\", "")
        if not words:
            start = number
        words.append(line)
    return [(n, re.sub(r"\s+([.,;:)])", r"\1", w)) for n, w in found]


def markdown(text):
    """Paragraphs, items of lists, cells of tables; no headings and no code."""
    found, words, start, code = [], [], 1, False

    def end():
        if words:
            found.append((start, " ".join(words)))
        words.clear()

    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("```"):
            code = not code
            end()
        elif code:
            continue
        elif line.startswith("|"):
            end()
            found += [(number, " " + cell.strip()) for cell in line.split("|") if cell.strip()]
        elif not line or line.startswith("#"):
            end()
        else:
            if re.match(r"(?:[-*]|\d+\.) ", line):
                end()
                line = " " + re.sub(r"^(?:[-*]|\d+\.) ", "", line)
            if not words:
                start = number
            words.append(line)
    end()
    return [(n, re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]", "", w)))
            for n, w in found]


def descriptions(text):
    """The sentences of an OpenAPI document; each is about the object that has it."""
    return [(text.count("\n", 0, m.start()) + 1, " " + m[1])
            for m in re.finditer(r'"(?:description|summary)": "((?:\\.|[^"\\])*)"', text)]


LITERAL = r'"(?:\\.|[^"\\\n])*"'


def is_message(words):
    """Several words of a sentence, and no SQL, path or format alone."""
    return len(re.findall(r"(?<![\w%\\])[a-z]{2,}(?![\w(])", words)) >= 4 and not re.match(
        r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA)\b", words)


def hashes(text):
    """Comments that begin with #; the lines of one comment are one text."""
    found, words, before = [], [], 0

    def end():
        if words:
            found.append((before - len(words) + 1, " " + " ".join(words)))
        words.clear()

    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*#(?!!)\s*(.*)|[^#'\"]*\s#\s(.*)", line)
        alone = comment and comment[1] is not None
        if not alone or not comment[1] or number != before + 1:
            end()
        if comment and comment[comment.lastindex]:
            words.append(comment[comment.lastindex].strip())
            before = number
            if not alone:
                end()
    end()
    return found


def docstrings(text):
    """Docstrings of Python; Topology, Pass and Fail of a scene are paragraphs."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            words = ast.get_docstring(node)
            for piece in re.split(r"\n\n|\n(?=\w+: )", words or ""):
                piece = re.sub(r"^(?:Topology|Pass|Fail|Cause): *", "", piece)
                found.append((node.body[0].lineno, " " + " ".join(piece.split())))
    return found


def comments(text, path):
    """Comments and docstrings alone: strings of a test may be what a program says."""
    if path.suffix == ".py":
        return docstrings(text) + hashes(text)
    if path.suffix in (".c", ".h"):
        return [(text.count("\n", 0, m.start()) + 1, " " + " ".join(piece.split()))
                for m in re.finditer(r"/\*(.*?)\*/", text, re.S)
                for piece in re.sub(r"^ *\*", "", m[1], flags=re.M).split("\n\n")]
    return hashes(text)


def strings(text, path):
    """Messages in the code, and all comments."""
    found = []
    if path.suffix in (".c", ".h", ".js"):
        head = re.match(r"\s*/\*(.*?)\*/|((?:\s*//[^\n]*\n)+)", text, re.S)
        for m in re.finditer(r"/\*(.*?)\*/", text[head.end():] if head else text, re.S):
            # A comment speaks of the code below it, or beside it.
            line = text.count("\n", 0, (head.end() if head else 0) + m.start()) + 1
            found += [(line, " " + " ".join(piece.split()))
                      for piece in re.sub(r"^ *\*", "", m[1], flags=re.M).split("\n\n")]
        code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
        quoted = rf"{LITERAL}(?:\s*(?:PRI\w+\s*)?{LITERAL})*"
        if path.suffix == ".js":
            code = re.sub(r"^\s*//.*$", "", code, flags=re.M)
            one = (r'(?:"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|`(?:\\.|[^`\\])*`)")
            quoted = rf"{one}(?:\s*\+\s*{one})*"
    else:
        head = re.match(r"(?:#!.*\n)?((?:#.*\n)+)", text)
        code = re.sub(r"^\s*#.*$", "", text, flags=re.M)
        quoted = r'"(?:\\.|[^"\\])*"' r"|'[^']*'"
        found += hashes(text[head.end():] if head else text)
    if head:
        comment = re.sub(r"^ *(?:\*|#|//)* ?", "", head[head.lastindex], flags=re.M)
        for piece in comment.split("\n\n"):
            found.append((1, " ".join(piece.split())))
    for m in re.finditer(quoted, code):
        words = re.sub(r'"\s*(?:PRI\w+\s*)?"' r"|['`\"]\s*\+\s*['`\"]", "",
                       m[0])[1:-1].replace("\\n", " ")
        if is_message(words):
            words = re.sub(r"%[-0-9.*]*(?:ll|z)?[a-z]|%$|% ", "X ", words)  # a name stands there
            found.append((code.count("\n", 0, m.start()) + 1, " ".join(words.split())))
    return found


def paragraphs(path, name=None):
    text = path.read_text(errors="replace")
    if name and name.startswith("tests/"):
        return comments(text, path)
    if re.search(r"\.[1-9]$", path.name):
        return manual(text, path.name.rsplit(".", 1)[0])
    if path.suffix == ".md":
        return markdown(text)
    if path.suffix == ".json":
        return descriptions(text)
    return strings(text, path)


def sentences(paragraph):
    """Each, the first one of a paragraph marked by ¶; a question is none."""
    guarded = re.sub(r"\b(e\.g|i\.e|etc|vs|No)\.", r"\1", paragraph)
    pieces = re.split(r"(?<=[.?!])[\")]* +(?=[A-Z(\"%])", guarded)
    for n, words in enumerate(pieces):
        if not words.endswith("?"):
            yield n == 0, words


def riddles(path, name=None):
    """[(line, pattern, advice, sentence)] of one file."""
    found = []
    for line, paragraph in paragraphs(path, name):
        for first, words in sentences(paragraph):
            if any(f == name and part in words for f, part in EXCEPTIONS):
                continue
            marked = "¶" + words if first else words
            for pattern, expression, advice in TABLE:
                hits = len({m.start() for m in expression.finditer(
                    marked if "¶" in expression.pattern else words.strip())})
                found += [(line, pattern, advice, words.strip())] * hits
    return found


# --- Files ---------------------------------------------------------------------

BUILT = {"build", "__pycache__", ".deps", ".libs", "node_modules"}
FOLDERS = ["admin-ui", "attach", "common", "core", "plugin", "server", "weftctl", "scripts",
           "systemd", "tests"]
# It speaks of other projects.
LEFT_OUT = {"docs/UPSTREAM.md"}


def files():
    found = [*SOURCE.glob("man/*.[1-9]"), *SOURCE.glob("*.md"), *SOURCE.glob("docs/**/*.md"),
             *SOURCE.glob("docs/API/*.json")]
    for folder in FOLDERS:
        for path in (SOURCE / folder).rglob("*"):
            if BUILT & set(path.relative_to(SOURCE).parts) or not path.is_file():
                continue
            if path.suffix in (".c", ".h", ".js", ".py", ".sh") or (
                    "." not in path.name and path.open("rb").read(3) == b"#!/"):
                found.append(path)
    names = sorted(str(p.relative_to(SOURCE)) for p in found)
    return [n for n in names if n not in LEFT_OUT]


def main(arguments):
    total = 0
    for name in arguments or files():
        path = pathlib.Path(name) if arguments and os.path.exists(name) else SOURCE / name
        for line, pattern, advice, words in riddles(path, name):
            total += 1
            print(f"{name}:{line}: {pattern} ({advice}): {words}")
    print(f"{total} in all")


if __name__ == "__main__":
    main(sys.argv[1:])
