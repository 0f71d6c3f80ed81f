"""One text for all kinds of learners: what differs is chosen when a driver is compiled."""

from numba.extending import overload

from lowswitch.kernels.arrays import MixtureSpec, OwnSpec, PlanSpec, RowSpec, StageSpec
from lowswitch.kernels.compile import INLINED, inline


def by_kind(name, choices):
    """A function whose first argument is a spec: the choice for its class, inlined.

    All choices take the same arguments. What is long is to be called by a short choice, or it would
    be inlined as a whole. Python calls the same functions where nothing is compiled. A learner with
    functions of the user's is a Q-learner, except where its class has a kernel of this name.
    """

    def choice(kind):
        if not issubclass(kind, OwnSpec):
            return choices[kind]
        return kind.kernels.get(name, choices[RowSpec])

    def chosen(spec, *arguments):
        return choice(type(spec))(spec, *arguments)

    def compiled(spec, *arguments):
        found = choice(spec.instance_class)
        return getattr(found, "py_func", found)

    chosen.__name__ = chosen.__qualname__ = name
    overload(chosen, jit_options=INLINED, strict=False)(compiled)
    return chosen


def of_rows(name, row, policies):
    """`by_kind` where single Q-learners differ from learners that keep their policies apart."""
    return by_kind(name, {RowSpec: row, StageSpec: row, PlanSpec: policies, MixtureSpec: policies})


@inline
def never(spec, tables):
    return False


@inline
def always(spec, tables):
    return True
