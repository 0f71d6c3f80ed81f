"""One place deploys: no other code of the package writes where learners keep deployed policies.

A planner and a mixture have deployed `tables.policy`, and a Q-learner the action of each of its
`tables.rows`. A learner with features has deployed `RidgeKnowledge.deployed`. This test reads the
syntax tree of every file for writes to them, and for second texts of the rules about them.
"""

import ast
import functools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "lowswitch"
FILES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
}
HOLDERS = "policy", "rows"  # fields of tables
TABLES = "RowTables", "StageTables", "PlanTables", "MixtureTables"
METHODS = "fill", "itemset", "partition", "put", "setfield", "sort"  # of arrays that they change
FUNCTIONS = "copyto", "place", "put", "put_along_axis", "putmask"  # of numpy, likewise

# who writes, and what else that is than a deployment
DEPLOYS = {
    "kernels/deploy.switch_policies": "switch_row of planners and mixtures",
    "kernels/qlearning.set_own": "switch_row of Q-learners, and what a member would play",
}
OTHERS = {
    "learners/rows.RowKnowledge.begin_with": "the initial policy",
    "learners/planners.PlannerKnowledge._deploy_first": "the initial policy",
    "learners/mixtures.MixtureKnowledge.begin_with": "the initial policy",
    "learners/mixtures.MixtureKnowledge.want": "what a member would play",
    "learners/mixtures.MixtureKnowledge.hold": "what a member would play",
    "learners/rows.RowKnowledge.undo.put_back": "puts back what a failed call has changed",
    "learners/rows.fresh_row_tables": "new tables",
    "learners/stages.StageKnowledge._fresh_tables": "new tables",
    "learners/plan_spec.fresh_plan_tables": "new tables",
    "learners/mixtures.fresh_mixture_tables": "new tables",
    "learners/rows.RowKnowledge._with": "saved tables",
    "learners/stages.StageKnowledge._with": "saved tables",
    "learners/planners.PlannerKnowledge._with": "saved tables",
    "learners/mixtures.MixtureKnowledge._with": "saved tables",
}


# ---- the rule ------------------------------------------------------------------------------------


@functools.cache
def functions(text, name):
    """The full name of each function of a file, and of the module, with the nodes of its own."""
    tree = ast.parse(text)
    found = [(name, own_nodes(tree))]

    def visit(node, names):
        for child in ast.iter_child_nodes(node):
            inner = names
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = (*names, child.name)
            if isinstance(child, ast.FunctionDef):
                found.append((".".join(inner), own_nodes(child)))
            visit(child, inner)

    visit(tree, (name,))
    return found


def own_nodes(function):
    """The nodes of a function but those of functions in it."""
    found, todo = [], list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef):
            todo.extend(ast.iter_child_nodes(node))
    return found


def is_tables(node, aliases):
    """Whether an expression is called `tables`, or was when it got its name."""
    if isinstance(node, ast.Name):
        return node.id == "tables" or aliases.get(node.id) == "tables"
    return isinstance(node, ast.Attribute) and node.attr == "tables"


def holder(node, aliases):
    """Which field of tables an expression is, or is a name for: policy, rows, any, or None."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id)
    if isinstance(node, ast.Attribute) and node.attr in HOLDERS:
        return node.attr if is_tables(node.value, aliases) else None
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
        return "any" if is_tables(node.args[0], aliases) else None
    return None


def seen_in(node, aliases):
    """Which field an expression leads to, or any of those that it lists."""
    if is_tables(node, aliases):
        return "tables"
    found = [which for part in ast.walk(node) if (which := holder(part, aliases))]
    return found[0] if found else None


def bindings(node):
    """What a statement gives names to: pairs of a target and a value."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
        return [(node.target, node.value)]
    if isinstance(node, ast.For | ast.comprehension):
        return [(node.target, node.iter)]
    return []


def pairs(target, value):
    """A binding of several names as bindings of one, where that can be seen."""
    if not isinstance(target, ast.Tuple):
        yield target, value
        return
    same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
    values = value.elts if same else [value] * len(target.elts)
    for one, other in zip(target.elts, values, strict=True):
        yield from pairs(one, other)


def aliases_of(nodes):
    """The names that the nodes of a function give to tables and to parts of what is deployed."""
    aliases, before = {}, None
    bound = [pair for node in nodes for given in bindings(node) for pair in pairs(*given)]
    while aliases != before:
        before = dict(aliases)
        for target, value in bound:
            if isinstance(target, ast.Name) and (which := seen_in(value, aliases)):
                aliases[target.id] = which
    return aliases


def is_deployed(node, aliases):
    """Whether an expression is a part of what is deployed: of rows, the action or all fields."""
    fields = set()
    while True:
        if isinstance(node, ast.Subscript):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                fields.add(node.slice.value)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value  # a view, as of reshape
        else:
            break
    which = holder(node, aliases)
    if which == "rows":
        return not fields or "action" in fields
    return which in ("policy", "any")


def stores(node, aliases):
    """Whether a node writes into what is deployed."""
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return is_deployed(node, aliases)
    if not isinstance(node, ast.Call):
        return False
    function, arguments = node.func, node.args
    called = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    if called in TABLES:
        return True
    if called == "_replace":
        return any(given.arg in (*HOLDERS, None) for given in node.keywords) and is_tables(
            function.value, aliases
        )
    changed = [function.value] if called in METHODS and isinstance(function, ast.Attribute) else []
    changed += arguments[:1] if called in FUNCTIONS else []
    return any(is_deployed(array, aliases) for array in changed)


def writers(text, name):
    """The functions of a file that write into what is deployed."""
    found = set()
    for full, nodes in functions(text, name):
        aliases = aliases_of(nodes)
        if any(stores(node, aliases) for node in nodes):
            found.add(full)
    return found


def callers(called):
    """The functions of the package in which a name occurs, and not as an import."""
    return {
        full
        for name, text in FILES.items()
        for full, nodes in functions(text, name)
        if any(isinstance(node, ast.Name) and node.id == called for node in nodes)
    }


# ---- the package keeps it ------------------------------------------------------------------------


def test_nothing_but_the_one_place_writes_what_is_deployed():
    found = {full for name, text in FILES.items() for full in writers(text, name)}
    assert found == {*DEPLOYS, *OTHERS}


def test_the_one_place_is_reached_through_the_gate_alone():
    assert callers("switch_policies") == callers("switch_own") == {"kernels/deploy"}  # switch_row
    assert callers("switch_row") == {"kernels/deploy", "kernels/deploy.pass_gate"}
    gate = {f"kernels/deploy.{name}" for name in ("take_step", "switch_all", "pass_rows")}
    assert callers("pass_gate") == gate
    assert callers("pass_rows") == {"learners/knowledge.Knowledge._pass_rows"}
    members = {"kernels/mixtures.learn_path", "kernels/targets.gather_rows"}
    assert callers("set_own") == {"kernels/deploy.switch_own"} | members


def found_in(text, name, is_one):
    """The functions of a file with a node of its own that is one of those looked for."""
    return {full for full, nodes in functions(text, name) if any(is_one(node) for node in nodes)}


def found_everywhere(is_one, under=""):
    """The same for all files of the package, or of a folder."""
    return {
        full
        for name, text in FILES.items()
        if name.startswith(under)
        for full in found_in(text, name, is_one)
    }


def test_a_learner_with_features_has_one_place_as_well():
    def writes(node):
        stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        return stored and node.attr == "deployed"

    ridge = {"begin_with": "the initial policy, or a saved one", "deploy": "the one place"}
    expected = {f"learners/ridge.RidgeKnowledge.{name}" for name in ridge}
    assert found_in(FILES["learners/ridge"], "learners/ridge", writes) == expected
    assert not found_in("def f(self):\n    self.deployed.act(0)\n", "f", writes)


# ---- and so does each rule about it --------------------------------------------------------------


def is_count(node):
    """Whether a node is `clock["switches"]` or `clock["deployments"]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value in ("switches", "deployments")
        and "clock" in ast.unparse(node.value)
    )


def test_a_budget_is_counted_at_the_gate_alone():
    counting = found_everywhere(lambda node: is_count(node) and isinstance(node.ctx, ast.Store))
    gate = {"kernels/deploy.pass_gate", "kernels/deploy.close_deployment"}
    assert counting == {*gate, "learners/knowledge.Knowledge.spent"}  # which a ledger restores


def test_what_is_left_of_a_budget_is_asked_in_three_places():
    compared = found_everywhere(
        lambda node: isinstance(node, ast.Compare) and any(map(is_count, ast.walk(node)))
    )
    rules = {"kernels/arrays.is_spent", "kernels/schedule.is_last", "kernels/deploy.may_switch"}
    assert compared == rules


def test_whether_a_change_is_a_switch_is_asked_at_the_gate_alone():
    asked = {"kernels/deploy.may_switch", "kernels/deploy.pass_gate"}
    assert callers("is_switch") == {"kernels/deploy", *asked}
    tallies = found_everywhere(
        lambda node: isinstance(node, ast.Attribute) and node.attr == "tally", "kernels"
    )
    assert tallies == {"kernels/deploy.law_differs"}

    def compares_laws(node):
        return isinstance(node, ast.Compare) and ast.unparse(node).count("sort") > 1

    assert not found_everywhere(compares_laws)


def test_ties_are_broken_in_one_text():
    def looks_for_best(node):
        return (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.Gt | ast.GtE | ast.Eq)
            and ast.unparse(node.comparators[0]) == "best"
        )

    others = {
        "kernels/values.optimal_values": "an optimal policy has no incumbent",
        "kernels/arms.best_arm": "an index is worked out on the way",
        "kernels/arms.leading_arm": "a mean is worked out on the way",
        "kernels/arms.sampled_arm": "draws have no ties",
        "kernels/planning.lower_value": "a certificate is of the best action, whoever plays it",
    }
    found = found_everywhere(looks_for_best, "kernels")
    assert found == {"kernels/qlearning.best_action", *others}


def test_changes_are_applied_to_policies_in_one_text():
    def applies(node):
        stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        return stored and "steps, states" in ast.unparse(node.slice)

    assert found_everywhere(applies) == {"policy/tables.change_rows"}


# ---- and whoever breaks it is found --------------------------------------------------------------

BREACHES = {
    "a row of a policy": "tables.policy[here] = action",
    "a policy as a table": "self.tables.policy.reshape(L, H, S)[:, step, state] = actions",
    "the action of a row": 'tables.rows[here]["action"] = action',
    "the actions of all rows": 'knowledge.tables.rows["action"][places] = actions',
    "a whole row": "tables.rows[here] = row",
    "a row that got a name": 'row = tables.rows[here]\n    row["action"] = action',
    "a table that got a name": "deployed = tables.policy\n    deployed[:] = policy",
    "tables that got a name": "mine = self.tables\n    mine.policy[here] += 1",
    "one of two names": "clock, policy = tables.clock, tables.policy\n    policy[here] = action",
    "one of several tables": "for one in (tables.policy, tables.wanted):\n        one[:] = policy",
    "a table by its name": 'getattr(self.tables, "policy")[here] = action',
    "a method of arrays": "tables.policy.fill(0)",
    "a function of numpy": "np.copyto(self.tables.policy, policy)",
    "other tables": "self.tables = self.tables._replace(policy=policy)",
    "new tables": "self.tables = PlanTables(**arrays)",
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES)
def test_a_write_elsewhere_is_found(breach):
    assert writers(f"def approve(self, tables):\n    {breach}\n", "gate") == {"gate.approve"}


@pytest.mark.parametrize(
    "harmless",
    [
        "tables.wanted[here] = tables.policy[here]",
        'row = tables.rows[here]\n    row["value"] = row["best_other"]',
        'tables.path[h]["action"] = tables.rows[here]["action"]',
        "self.tables = self.tables._replace(pool=grown)",
        "evaluation.policy[here] = a",
    ],
)
def test_reading_what_is_deployed_and_writing_elsewhere_is_none(harmless):
    assert writers(f"def learn(self, tables):\n    {harmless}\n", "knowledge") == set()
