# SPDX-License-Identifier: Apache-2.0
"""Which function mentions which, by name: enough to see that a documented order of calls cannot be right."""
import collections
import re

FOLDERS = ("include", "common", "rpc", "collectors", "server", "client")
NO_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return"}
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
# A name, its parameters, qualifiers or initializers, and the first brace behind them.
DEFINITION = re.compile(r"\b(~?\w+)\s*\((?:[^;{}()]|\([^;{}()]*\))*\)[^;{}()]*(?::[^;{}]*)?\{")


def body(text, begin):
    """The text from the brace at `begin` to the one that closes it."""
    depth = 0
    for brace in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[begin : begin + brace.end()]
    return text[begin:]


def read(root):
    """{function: the identifiers in its bodies}, by unqualified name, of all product sources below `root`."""
    graph = collections.defaultdict(set)
    for folder in FOLDERS:
        for suffix in ("h", "cc", "c"):
            for path in sorted(root.glob(f"{folder}/**/*.{suffix}")):
                text = COMMENT_OR_TEXT.sub("", path.read_text("utf-8"))
                for match in DEFINITION.finditer(text):
                    if match[1] not in NO_FUNCTIONS:
                        initializers = text[match.end(1) : match.end()]
                        graph[match[1]] |= set(re.findall(r"~?\w+", initializers + body(text, match.end() - 1)))
    return graph


def reaches(graph, sources, name, max_calls):
    """Whether `name` is mentioned within `max_calls` calls of one of `sources`."""
    seen = level = set(sources)
    for _ in range(max_calls):
        mentioned = set().union(*(graph.get(function, set()) for function in level))
        if name in mentioned:
            return True
        level = {function for function in mentioned if function in graph} - seen
        seen = seen | level
    return False
