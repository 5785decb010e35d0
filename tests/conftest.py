"""What all tests share: on a machine without a C compiler, a test of what needs one is skipped, with the reason.

And Ctrl-C is heard, by the processes that tests start too: a shell's background jobs are born deaf to it.
"""

import signal
import threading

import pytest

from dynident.codegen.compiler import compiler
from dynident.errors import NotSupported

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _skipped_where_a_compiler_is_missing(outcome):
    raised = outcome.excinfo[1] if outcome.excinfo else None
    if isinstance(raised, NotSupported) and "C compiler" in str(raised) and compiler() is None:
        outcome.force_exception(pytest.skip.Exception(str(raised), _use_item_location=True))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    if item.get_closest_marker("compiled") and compiler() is None:
        pytest.skip("without a C compiler this takes minutes")
    _skipped_where_a_compiler_is_missing((yield))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    _skipped_where_a_compiler_is_missing((yield))
