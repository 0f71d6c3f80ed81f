"""One source text for all kinds of learners; differences are chosen when a driver is compiled."""

from numba.extending import overload

from lowswitch.kernels.arrays import MixtureSpec, OwnSpec, PlanSpec, RowSpec, StageSpec
from lowswitch.kernels.compile import INLINED, inline


def by_kind(name, choices):
    """A function whose first argument is a spec: it inlines the choice for the spec's class.

    All choices take the same arguments. A choice should be short and call longer code, which would
    otherwise be inlined completely. Python calls the same functions when nothing is compiled. A
    kind without a choice does as Q-learners do. So does a learner with a user's functions, except
    where its class has a kernel of this name.
    """

    def choice(kind):
        if issubclass(kind, OwnSpec):
            return kind.kernels.get(name, choices[RowSpec])
        return choices[kind if kind in choices else RowSpec]

    def chosen(spec, *arguments):
        return choice(type(spec))(spec, *arguments)

    def compiled(spec, *arguments):
        found = choice(spec.instance_class)
        return getattr(found, "py_func", found)

    chosen.__name__ = chosen.__qualname__ = name
    overload(chosen, jit_options=INLINED, strict=False)(compiled)
    return chosen


def of_rows(name, row, policies):
    """`by_kind` for functions in which single Q-learners differ from learners with separate
    policies.
    """
    return by_kind(name, {RowSpec: row, StageSpec: row, PlanSpec: policies, MixtureSpec: policies})


@inline
def never(spec, tables):
    return False


@inline
def always(spec, tables):
    return True
