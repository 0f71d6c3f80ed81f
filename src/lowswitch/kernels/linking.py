"""Make machine code only for kernels that Python calls; other functions are linked into them.

Numba optimizes every function and makes machine code for it, and does both again for each of its
callers with the function linked in: the deeper a kernel lies, the more often it is compiled. Here a
function without an entry point for Python is only linked, and optimized in the kernels that contain
it. Unless it is marked for inlining, it stays a function there: LLVM would dissolve every part with
a single caller, and a hot loop in the middle of a large kernel has too few registers left.

This uses the internals of numba's code generator, so it applies only to the versions that were
tested. Other versions compile as numba does, with the same results.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment

IS_TRIED = numba.__version__.startswith("0.68.")
ENTRANCE = "wrapper"  # numba's name of the module with the entry point for Python
LINKED = "linked"  # the form in which a part's code is stored, beside "bitcode" and "object"


class NoEnvironments:
    """The code generator of a part; the environment is set with the kernel that contains it."""

    def set_env(self, name: str, environment: Any) -> None:
        pass


class KernelLibrary(JITCodeLibrary):
    """The code of one function and its callees, as numba stores it.

    Callers link the code before optimization, even if the function has an entry point.
    """

    _codegen: Any
    entrance: Any = None
    bitcode: bytes | None = None  # what callers link, if it was cached and not yet requested

    def add_llvm_module(self, module: Any) -> None:
        if module.name == ENTRANCE:
            self._optimize_functions(module)
            self.entrance = module
        else:
            super().add_llvm_module(module)

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        if self.entrance is None:
            self._finalize_dynamic_globals()
            self._finalized = True
        else:
            self._make_machine_code()

    def _make_machine_code(self) -> None:
        self.bitcode = self._final_module.as_bitcode()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage != llvm.Linkage.external:
                function.linkage = "internal"  # nobody else calls this copy: arguments may go
        self._final_module.link_in(self.entrance)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    def _get_module_for_linking(self) -> Any:
        self._ensure_finalized()
        if self.bitcode is not None:
            part = type(self)(self._codegen, self.name)
            part._final_module, part._finalized = llvm.parse_bitcode(self.bitcode), True
            self._shared_module, self.bitcode = part._get_module_for_linking(), None
        return super()._get_module_for_linking()

    def keep_apart(self, name: str) -> None:
        """Prevent inlining of a part's function, here and wherever the part is linked."""
        if self.entrance is None:
            self.get_function(name).add_function_attribute("noinline")

    def get_pointer_to_function(self, name: str) -> Any:
        self._ensure_finalized()
        return 0 if self.entrance is None else super().get_pointer_to_function(name)

    @property
    def codegen(self) -> Any:
        return NoEnvironments() if self.entrance is None else self._codegen

    def serialize_using_object_code(self) -> Any:
        self._ensure_finalized()
        if self.entrance is None:
            return self.name, LINKED, self._final_module.as_bitcode()
        functions = self._final_module.functions
        names = {one.name for one in functions if not one.is_declaration}
        bitcode = self.bitcode or self._get_module_for_linking().as_bitcode()
        return self.name, LINKED + ENTRANCE, (self._get_compiled_object(), bitcode, names)

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, data = state
        library = cls(codegen, name)
        if kind == LINKED:
            library._final_module, library._finalized = llvm.parse_bitcode(data), True
            return library
        machine_code, library.bitcode, names = data
        library.entrance = ENTRANCE
        library.enable_object_caching()
        library._set_compiled_object(machine_code)
        library._finalize_final_module()
        codegen._engine._defined_symbols |= names
        return library


@contextlib.contextmanager
def kernel_libraries(context: Any) -> Iterator[None]:
    """Make code that is compiled or loaded inside this context, under numba's lock, a
    `KernelLibrary`.
    """
    if not IS_TRIED:
        yield
        return
    codegen = context.codegen()
    usual = codegen._library_class
    codegen._library_class = KernelLibrary
    try:
        yield
    finally:
        codegen._library_class = usual


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Compiling makes many objects and few cycles; looking for cycles takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class KernelCompiler(Compiler):
    """Numba's compiler, which makes machine code only for kernels with an entry point."""

    def _compile_core(self) -> Any:
        with no_garbage_collection(), kernel_libraries(self.state.targetctx):
            compiled = super()._compile_core()
        if isinstance(compiled.library, KernelLibrary) and not self.state.flags.forceinline:
            compiled.library.keep_apart(compiled.fndesc.llvm_func_name)
        return compiled
