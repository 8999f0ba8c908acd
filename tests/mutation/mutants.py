"""Mutants of a module: its source with one small change each that a test ought to notice."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.Mod: ast.Add,
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_DEAD = (ast.Expr, ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `name` is what stays the same when lines move, `source` the whole module."""

    name: str
    line: int
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module.

    Order: that of the lines.
    """
    tree = ast.parse(source)
    encoded = source.encode()
    starts = [0, *accumulate(map(len, encoded.splitlines(keepends=True)))]
    found: dict[str, Mutant] = {}
    counts: dict[str, int] = {}
    for function, node, changed in _changes(tree, ""):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = _one_line(encoded[start:end].decode())
        name = f"{function}: {before} -> {_one_line(changed)}"
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1:
            name = f"{name} #{counts[name]}"
        found[name] = Mutant(
            name, node.lineno, (encoded[:start] + changed.encode() + encoded[end:]).decode()
        )
    return sorted(found.values(), key=lambda one: one.line)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _changes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """The function around each node that can be changed, the node, and what takes its place."""
    for child in _inside(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}".lstrip(".")
        if isinstance(child, ast.stmt):
            yield from ((function, child, text) for text in _of_statement(child))
        elif isinstance(child, ast.expr):
            texts = (f"({ast.unparse(one)})" for one in _of_expression(child))
            yield from ((function, child, text) for text in texts)
        yield from _changes(child, inner)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, but for annotations, decorators, imports and docstrings."""
    skipped: set[int] = set()
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        skipped |= {id(one) for one in node.decorator_list}
    if isinstance(node, ast.FunctionDef):
        skipped.add(id(node.returns))
    for child in ast.iter_child_nodes(node):
        is_text = (
            isinstance(child, ast.Expr)
            and isinstance(child.value, ast.Constant)
            and isinstance(child.value.value, str)
        )
        left_out = ast.Import | ast.ImportFrom | ast.arguments | ast.JoinedStr
        if is_text or isinstance(child, left_out) or id(child) in skipped:
            continue
        if isinstance(node, ast.AnnAssign) and child is node.annotation:
            continue
        if isinstance(child, ast.keyword) and child.arg == "strict":
            continue
        is_named = isinstance(node, ast.Module) and isinstance(child, ast.Assign)
        if is_named and isinstance(child.value, ast.Subscript):  # a type
            continue
        yield child


def _of_statement(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, _DEAD):
        yield "pass"
    elif isinstance(node, ast.Return) and node.value is not None:
        if not isinstance(node.value, ast.Constant):
            yield "return None"
        elif isinstance(node.value.value, bool):
            yield f"return {not node.value.value}"


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], [right])
        case ast.Compare(left, operators, rights):
            for at in range(len(operators)):  # a chain loses a link
                kept = [left, *rights]
                del kept[at + 1 if at else 0]
                links = [one for place, one in enumerate(operators) if place != at]
                yield ast.Compare(kept[0], links, kept[1:])
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            yield ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLED:
            yield ast.Call(ast.Name(_CALLED[name]), arguments, keywords)
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements) if len(elements) > 1:
            if any(isinstance(one, ast.Starred) for one in elements):
                for at in range(len(elements)):
                    yield type(node)(elts=elements[:at] + elements[at + 1 :])
        case ast.ListComp(_, [first]) | ast.SetComp(_, [first]) | ast.GeneratorExp(_, [first]):
            for at in range(len(first.ifs)):
                ifs = first.ifs[:at] + first.ifs[at + 1 :]
                kept = ast.comprehension(first.target, first.iter, ifs, first.is_async)
                yield type(node)(node.elt, [kept])
